// SPDX-License-Identifier: Apache-2.0
// Interrupts runs at random instants and resumes them on 1 to 4 ranks in turn. They must end as an undisturbed run:
// with the same bytes in the files of the last checkpoint, and the same losses and metrics after every step and epoch.
// LOCKSTEP_KILLS sets how many runs are killed at least (10), and LOCKSTEP_SOAK_SECONDS how long they are killed at
// least (60); two fifths of LOCKSTEP_KILLS are stopped by signals. LOCKSTEP_KILL_SEED, which the output shows, draws
// the same instants again.
#include <algorithm>
#include <csignal>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/train/remains.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/background_job.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing_support::BackgroundJob;
using testing_support::becomes_true;

constexpr int steps_per_epoch = 8;

class Restart : public testing::Test {
 protected:
  Restart() {
    std::printf("LOCKSTEP_KILL_SEED=%u\n", seed_);
    std::fflush(stdout);
  }

  /// Trains without any interruption. @return what a run must leave
  Remains undisturbed(const std::string& optimizer) {
    optimizer_ = optimizer;
    const std::string folder = digits_.path("whole-" + optimizer);
    const auto result = run_train(1, options() + " --save-interval never --save-dir " + folder);
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    return remains_of(folder);
  }

  /// Starts or resumes a run, and kills all its ranks.
  /// @param in_a_save  a little after a save has begun, instead of at any instant since the start
  /// @return false if it has ended before
  bool killed(bool in_a_save) {
    auto job = start(" --save-steps 2");
    const auto before_the_kill = draw(in_a_save ? 10'000 : 1'200'000);
    if (in_a_save) {
      for (int saves = 1 + draw(3); saves > 0; --saves) {
        (void)wait_for(job, [&] { return !has_unfinished_save(); });
        (void)wait_for(job, [&] { return has_unfinished_save(); });
      }
    }
    std::this_thread::sleep_for(before_the_kill * 1us);
    (void)wait_for(job, [&] { return !ranks().empty(); });
    if (!kill_all(job)) return false;
    cut_saves_ += has_unfinished_save() ? 1 : 0;
    return true;
  }

  /// Starts or resumes a run, and sends one of its ranks a signal after a random number of steps. SIGTERM ends the run;
  /// after SIGUSR1 it is killed as soon as it has saved.
  /// @return false if it has ended before
  bool stopped(int signal) {
    const std::size_t before = trained_steps();
    auto job = start(" --save-interval never");
    const std::size_t steps = before + 1 + static_cast<std::size_t>(draw(12));
    if (!wait_for(job, [&] { return trained_steps() >= steps; })) return false;
    const std::vector<std::string> saved = requested_saves();
    const std::vector<pid_t> pids = ranks();
    if (pids.empty() || kill(pids.at(static_cast<std::size_t>(draw(static_cast<int>(pids.size())))), signal) != 0)
      return false;
    if (signal == SIGUSR1) return wait_for(job, [&] { return requested_saves() != saved; }) && kill_all(job);
    EXPECT_TRUE(becomes_true(60s, [&] { return job.has_ended(); })) << output();
    if (job.exit_code() == exit_success) return false;
    EXPECT_EQ(job.exit_code(), exit_stopped) << output();
    EXPECT_EQ(occurrences(output(), "stopped by SIGTERM"), 1) << output();
    return true;
  }

  /// Resumes the run to its end, compares what it leaves, and removes it.
  void expect_to_end_as(const Remains& whole) {
    const auto result = run_train(next_ranks(), options() + " --resume auto --save-dir " + folder());
    ASSERT_EQ(result.exit_code, exit_success) << result.output;
    const Remains remains = remains_of(folder());
    EXPECT_TRUE(remains.model == whole.model) << "weights or running statistics" << seed_text();
    EXPECT_TRUE(remains.optimizer == whole.optimizer) << seed_text();
    EXPECT_EQ(remains.position, whole.position) << seed_text();
    EXPECT_EQ(remains.end, whole.end) << seed_text();
    for (const std::string& event : remains.events) EXPECT_TRUE(whole.events.contains(event)) << event << seed_text();
    fs::remove_all(folder());
    ++compared_;
  }

  int draw(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  [[nodiscard]] int kills() const { return static_cast<int>(kills_); }
  [[nodiscard]] std::chrono::seconds soak() const { return std::chrono::seconds(soak_seconds_); }
  [[nodiscard]] int cut_saves() const { return cut_saves_; }
  [[nodiscard]] int compared() const { return compared_; }

 private:
  [[nodiscard]] std::string folder() const { return digits_.path("run"); }
  [[nodiscard]] std::string output() const { return data::read_all(digits_.file("output")); }
  [[nodiscard]] std::string seed_text() const { return "; LOCKSTEP_KILL_SEED=" + std::to_string(seed_); }
  [[nodiscard]] std::string options() const {
    return digits_.arguments() +
           " --model resnet20 --batch 12 --shards 4 --ema 0.9 --lr 0.01 --epochs 10 --log-every 1" +
           " --threads 1 --optimizer " + optimizer_;
  }
  int next_ranks() { return 1 + starts_++ % 4; }
  BackgroundJob start(const std::string& saving) {
    return {train_command(next_ranks(), options() + saving + (draw(2) == 0 ? " --zero" : " --zero=no") +
                                            " --keep 2 --resume auto --save-dir " + folder()),
            digits_.file("output")};
  }
  /// Asks every 200 µs. @return false if the run has ended before
  template <typename Question>
  bool wait_for(BackgroundJob& job, const Question& question) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!question()) {
      if (job.has_ended()) return false;
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "waited for a minute" << seed_text() << '\n' << output();
        return false;
      }
      std::this_thread::sleep_for(200us);
    }
    return true;
  }
  [[nodiscard]] std::vector<pid_t> ranks() const { return testing_support::processes(LOCKSTEP_TRAIN, folder()); }
  /// @return false if the run has ended by itself. Open MPI's mpiexec sometimes hangs when its ranks are gone; the
  /// destructor of the job ends it.
  bool kill_all(BackgroundJob& job) {
    for (const pid_t pid : ranks()) kill(pid, SIGKILL);
    EXPECT_TRUE(becomes_true(60s, [&] { return ranks().empty(); })) << output();
    return !becomes_true(10s, [&] { return job.has_ended(); }) || job.exit_code() != exit_success;
  }
  [[nodiscard]] std::vector<std::string> names_of_checkpoints() const {
    std::vector<std::string> names;
    std::error_code gone;
    for (fs::directory_iterator entry(folder() + "/checkpoints", gone), end; !gone && entry != end;
         entry.increment(gone))
      names.push_back(entry->path().filename().string());
    return names;
  }
  /// Names that begin with a dot are under way.
  [[nodiscard]] bool has_unfinished_save() const {
    const auto names = names_of_checkpoints();
    return std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with('.'); });
  }
  /// Returns the checkpoints that are not those after the best evaluation so far, which are at the end of an epoch.
  [[nodiscard]] std::vector<std::string> requested_saves() const {
    std::vector<std::string> names = names_of_checkpoints();
    std::erase_if(names, [](const std::string& name) {
      return !name.starts_with("step-") || std::stoi(name.substr(5)) % steps_per_epoch == 0;
    });
    std::sort(names.begin(), names.end());
    return names;
  }
  [[nodiscard]] std::size_t trained_steps() const {
    std::error_code missing;
    const fs::path metrics = folder() + "/metrics.jsonl";
    return fs::exists(metrics, missing)
               ? static_cast<std::size_t>(occurrences(data::read_all(metrics), R"("event":"step")"))
               : 0;
  }

  unsigned kills_ = testing_support::number_from("LOCKSTEP_KILLS", 10);
  unsigned soak_seconds_ = testing_support::number_from("LOCKSTEP_SOAK_SECONDS", 60);
  unsigned seed_ = testing_support::number_from("LOCKSTEP_KILL_SEED", std::random_device()());
  std::mt19937 random_{seed_};
  SmallDigits digits_;
  std::string optimizer_;
  int starts_ = 0;
  int cut_saves_ = 0;
  int compared_ = 0;
};

TEST_F(Restart, ARunThatIsKilledAtAnyInstantsEndsAsAnUndisturbedOne) {
  const std::vector<std::string> optimizers = {"sgd", "adamw"};
  int all_kills = 0;
  for (const std::string& optimizer : optimizers) {
    const Remains whole = undisturbed(optimizer);
    const auto end = std::chrono::steady_clock::now() + soak() / optimizers.size();
    for (int done = 0; (done < kills() / 2 || std::chrono::steady_clock::now() < end) && !HasFatalFailure();) {
      if (killed(done % 2 == 0)) {
        ++done;
        ++all_kills;
      } else {
        expect_to_end_as(whole);
      }
    }
    expect_to_end_as(whole);
  }
  std::printf("%d kills, %d of them during a save; %d runs have ended as undisturbed ones\n", all_kills, cut_saves(),
              compared());
  EXPECT_TRUE(cut_saves() > 0 || kills() < 10);
}

TEST_F(Restart, ARunThatIsStoppedAfterAnyStepsEndsAsAnUndisturbedOne) {
  const Remains whole = undisturbed("sgd");
  const int stops = kills() * 2 / 5;
  for (int done = 0; done < stops && !HasFatalFailure();) {
    if (stopped(draw(2) == 0 ? SIGUSR1 : SIGTERM)) {
      ++done;
    } else {
      expect_to_end_as(whole);
    }
  }
  expect_to_end_as(whole);
  std::printf("%d stops; %d runs have ended as undisturbed ones\n", stops, compared());
}

}  // namespace
}  // namespace lockstep::train
