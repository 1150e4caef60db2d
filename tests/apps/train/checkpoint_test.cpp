// SPDX-License-Identifier: Apache-2.0
// Tests what a run leaves behind, and runs that continue from it on other numbers of ranks.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/background_job.hpp"
#include "support/verdict.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing_support::BackgroundJob;
using testing_support::becomes_true;

/// Returns the part of the output that a run with the same result has, too: accuracy, loss, and hash of the weights.
std::string result_of(const std::string& output) {
  std::string result;
  for (const char* pattern :
       {"last loss [0-9.]+", "test loss [^\n]*", "test accuracy [^\n]*", "weights sha256 [0-9a-f]+"}) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(output, found, std::regex(pattern))) << pattern << '\n' << output;
    result += found.str() + '\n';
  }
  return result;
}

class Checkpoint : public testing::Test {
 protected:
  [[nodiscard]] std::string folder() const { return digits_.path("run"); }
  [[nodiscard]] fs::path checkpoints() const { return digits_.file("run") / "checkpoints"; }
  /// Options of a run that has the same bits on any number of ranks: 8 steps an epoch.
  [[nodiscard]] std::string options(const std::string& optimizer, int epochs) const {
    return digits_.arguments() + " --batch 12 --shards 4 --ema 0.9 --lr 0.01 --threads 1 --optimizer " + optimizer +
           " --epochs " + std::to_string(epochs);
  }
  /// Runs to the end. @return its result
  [[nodiscard]] std::string run(int ranks, const std::string& arguments) const {
    const auto result = run_train(ranks, arguments);
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    return result_of(result.output);
  }
  [[nodiscard]] std::vector<std::string> saved_steps() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(checkpoints(), error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) names.push_back(name);
    }
    return names;
  }
  void damage(const fs::path& file) const {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-1, std::ios::end);
    bytes.put('\x55');
  }

  SmallDigits digits_;
};

TEST_F(Checkpoint, ARunLeavesItsModelItsMetricsAndItsOptions) {
  const std::string first = run(2, digits_.arguments() + " --batch 12 --epochs 2 --save-dir " + folder());
  EXPECT_EQ(fs::read_symlink(checkpoints() / "last"), "step-00000016");
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_TRUE(fs::exists(checkpoints() / "last" / file)) << file;
  EXPECT_TRUE(fs::exists(checkpoints() / "best" / "model.safetensors"));
  std::vector<std::string> paths;
  for (const auto& line : read_metrics(digits_.file("run") / "metrics.jsonl"))
    if (line.at("event") == "checkpoint") paths.push_back(line.at("path"));
  EXPECT_EQ(paths,
            (std::vector{(checkpoints() / "step-00000008").string(), (checkpoints() / "step-00000016").string()}));
  const auto state = nlohmann::json::parse(std::ifstream(checkpoints() / "last" / "state.json"));
  EXPECT_EQ(state.at("sections").at("run").at("global_step"), 16);
  EXPECT_EQ(state.at("sections").at("options").at("--batch"), "12");
  EXPECT_EQ(state.at("sections").at("settings").at("data set").get<std::string>().size(), 16U);
  EXPECT_NE(state.at("sections").at("program").at("arithmetic").get<std::string>().find("isa"), std::string::npos);
  for (const char* library : {"MPI", "oneDNN", "zlib", "compiler"})
    EXPECT_NE(state.at("sections").at("libraries").at(library), "") << library;
  EXPECT_EQ(run(2, "--config " + folder() + "/options.conf --save-dir " + folder()), first);
  EXPECT_TRUE(fs::exists(folder() + "-2/checkpoints/last")) << "a run has a folder of its own";
}

TEST_F(Checkpoint, HasALossScaleThatDoublesAfterEachWindow) {
  (void)run(2,
            digits_.arguments() + " --batch 12 --steps 7 --loss-scale 4 --loss-scale-window 3 --save-dir " + folder());
  const auto state = nlohmann::json::parse(std::ifstream(checkpoints() / "last" / "state.json"));
  EXPECT_EQ(state.at("sections").at("run").at("loss_scale"), 16) << "after steps 3 and 6";
}

TEST_F(Checkpoint, TheBestIsThatOfTheChosenMetric) {
  for (const std::string metric : {"accuracy", "loss", "top5_accuracy"}) {
    fs::remove_all(folder());
    (void)run(2, digits_.arguments() + " --batch 12 --epochs 5 --lr 0.05 --keep 9 --save-dir " + folder() +
                     (metric == "accuracy" ? "" : " --best " + metric));
    std::string best;
    double best_value = 0;
    for (const auto& line : read_metrics(digits_.file("run") / "metrics.jsonl")) {
      if (line.at("event") != "epoch") continue;
      const double value = line.at("val_" + metric).get<double>() * (metric == "loss" ? -1 : 1);
      if (!best.empty() && value <= best_value) continue;
      best_value = value;
      best = "step-000000" + std::string(line.at("epoch") == 1 ? "0" : "") +
             std::to_string(8 * line.at("epoch").get<int>());
    }
    EXPECT_EQ(fs::read_symlink(checkpoints() / "best"), best) << metric;
  }
  expect_refused(run_train(2, digits_.arguments() + " --best top1"), exit_usage,
                 {"--best: there is no metric 'top1'", "there are loss, accuracy, top5_accuracy"});
  expect_refused(run_train(2, digits_.arguments() + " --early-stop mAP:3"), exit_usage,
                 {"--early-stop: there is no metric 'mAP'", "there are loss, accuracy, top5_accuracy"});
}

/// The rate is too small to change a weight, so that no evaluation is better than the first one.
TEST_F(Checkpoint, ARunEndsEarlyIfAMetricBecomesNoBetter) {
  const std::string arguments =
      digits_.arguments() + " --batch 12 --shards 4 --lr 1e-30 --weight-decay 0 --epochs 6 --save-dir " + folder();
  const auto outcome = [&] { return read_metrics(digits_.file("run") / "metrics.jsonl").back(); };
  const std::string early = run(2, arguments + " --early-stop loss:2");
  EXPECT_EQ(outcome().at("outcome"), "early-stopped");
  EXPECT_EQ(outcome().at("steps"), 24) << "three epochs";
  EXPECT_EQ(fs::read_symlink(checkpoints() / "best"), "step-00000008");
  const auto again = run_train(3, arguments + " --early-stop loss:2 --resume last");
  EXPECT_EQ(again.exit_code, exit_success);
  EXPECT_EQ(occurrences(again.output,
                        "ended by --early-stop after 3 of 6 epochs: loss has not become better in 2 "
                        "evaluations"),
            1)
      << again.output;
  EXPECT_EQ(result_of(again.output), early) << "it had ended";
  (void)run(1, arguments + " --early-stop off --resume last");
  EXPECT_EQ(outcome().at("outcome"), "completed");
  EXPECT_EQ(outcome().at("steps"), 48);
}

TEST_F(Checkpoint, ARequestToOneRankSavesAndTheRunGoesOn) {
  const fs::path output = digits_.file("output");
  BackgroundJob job(
      train_command(3, options("sgd", 10'000'000) +
                           " --save-interval never --eval-interval never --keep 9 --save-dir " + folder()),
      output);
  const auto ranks = [&] { return testing_support::processes(LOCKSTEP_TRAIN, folder()); };
  const auto metrics = digits_.file("run") / "metrics.jsonl";
  ASSERT_TRUE(becomes_true(std::chrono::seconds(60), [&] {
    return occurrences(data::read_all(metrics), R"("event":"epoch")") > 0 || job.has_ended();
  })) << data::read_all(output);
  for (const std::size_t saves : {1U, 2U}) {
    kill(ranks().at(saves), SIGUSR1);
    EXPECT_TRUE(becomes_true(std::chrono::seconds(60), [&] { return saved_steps().size() == saves; }))
        << data::read_all(output);
    std::this_thread::sleep_for(milliseconds(1200));
    EXPECT_FALSE(job.has_ended()) << data::read_all(output);
    EXPECT_EQ(saved_steps().size(), saves);
  }
  kill(ranks().at(1), SIGTERM);
  EXPECT_TRUE(becomes_true(std::chrono::seconds(60), [&] { return job.has_ended(); }));
  EXPECT_EQ(job.exit_code(), exit_stopped) << data::read_all(output);
  EXPECT_EQ(saved_steps().size(), 3U) << "the end saves, too";
}

TEST_F(Checkpoint, ARunWhoseTimeIsOverStopsWithOneAndGoesOnFromIt) {
  const std::string endless = options("sgd", 10'000'000) + " --lr-schedule constant --warmup 0";
  const auto stopped = run_train(2, endless + " --max-time 1s --save-dir " + folder());
  EXPECT_EQ(stopped.exit_code, exit_stopped) << stopped.output;
  EXPECT_EQ(occurrences(stopped.output, "\nstopped by --max-time after "), 1) << stopped.output;
  EXPECT_EQ(
      occurrences(stopped.output, "to continue, with the options of this run: --save-dir " + folder() + " --resume\n"),
      1)
      << stopped.output;
  const auto state = nlohmann::json::parse(std::ifstream(checkpoints() / "last" / "state.json"));
  const std::int64_t steps = state.at("sections").at("run").at("global_step");
  const auto end = read_metrics(digits_.file("run") / "metrics.jsonl").back();
  EXPECT_EQ(end.at("outcome"), "stopped");
  EXPECT_EQ(end.at("steps"), steps);
  const std::string whole = std::to_string(steps + 5);
  const std::string as_one = run(1, endless + " --steps " + whole);
  EXPECT_EQ(run(3, endless + " --resume last --steps " + whole + " --save-dir " + folder()), as_one);
}

TEST_F(Checkpoint, ADamagedCheckpointIsRefusedByNameAndAutoTakesAnOlderOne) {
  const std::string whole = run(1, options("sgd", 3) + " --save-dir " + folder());
  damage(checkpoints() / "step-00000024" / "optimizer.safetensors");
  expect_refused(run_train(2, options("sgd", 3) + " --resume last --save-dir " + folder()), exit_error,
                 {"step-00000024/optimizer.safetensors"});
  const auto resumed = run_train(2, options("sgd", 3) + " --resume auto --save-dir " + folder());
  EXPECT_EQ(occurrences(resumed.output, "not resumed from: "), 1) << resumed.output;
  EXPECT_EQ(occurrences(resumed.output, "resumed from " + folder() + "/checkpoints/step-00000016: epoch 2, step 8"), 1)
      << resumed.output;
  EXPECT_EQ(result_of(resumed.output), whole);
}

TEST_F(Checkpoint, IsRefusedIfItIsOfAnotherRun) {
  (void)run(1, options("sgd", 1) + " --save-dir " + folder());
  const std::string path = (checkpoints() / "step-00000008").string();
  expect_refused(run_train(2, options("adamw", 1) + " --resume " + path), exit_error,
                 {"has optimizer SGD, this run AdamW", "Nothing was changed",
                  "or leave them out: " + folder() + "/options.conf has them"});
  expect_refused(
      run_train(2, options("adamw", 1) + " --seed 2 --precision bf16 --drop-last --resume " + path), exit_error,
      {"has optimizer SGD, this run AdamW; precision float32, this run bfloat16; drop-last no, this run yes; "
       "seed 1, this run 2."});
  const SmallDigits other;
  other.write_images("train", SmallDigits::train_size, 3);
  const auto with_other_data =
      run_train(2, other.arguments() + " --batch 12 --shards 4 --ema 0.9 --lr 0.01 --epochs 1 --resume " + path);
  expect_refused(with_other_data, exit_error, {"has data set "});
  expect_refused(run_train(2, options("sgd", 1) + " --augment flip --resume " + path), exit_error,
                 {"has data set ", " augmented by flip. Nothing was changed"});
  const std::string unused = digits_.path("unused");
  for (const std::string& none : {folder() + "x", checkpoints().string(), path + "/model.safetensors"}) {
    expect_refused(run_train(1, options("sgd", 1) + " --save-dir " + unused + " --resume " + none), exit_error,
                   {"'" + none + "'", "or the path of a checkpoint (a folder step-…) or of a run"});
    EXPECT_FALSE(fs::exists(unused)) << "a wrong path leaves nothing behind";
  }
  expect_refused(run_train(1, options("sgd", 1) + " --resume last --save-dir " + folder() + "x"), exit_error,
                 {"'" + folder() + "x', which does not exist"});
  expect_refused(run_train(1, options("sgd", 1) + " --resume best --save-dir none"), exit_usage,
                 {"--resume best means a checkpoint of --save-dir, which is none"});
}

TEST_F(Checkpoint, OptionsThatMayChangeAreReportedWithBothValues) {
  (void)run(1, options("sgd", 1) + " --save-dir " + folder());
  const auto resumed = run_train(2, digits_.arguments() +
                                        " --batch 12 --shards 4 --ema 0.9 --optimizer sgd --epochs 2 --steps 12 --lr "
                                        "0.02 --keep 2 --resume --save-dir " +
                                        folder());
  for (const char* part : {"changed since: --lr 0.01, now 0.02\n", "changed since: --epochs 1, now 2\n",
                           "changed since: --keep 3, now 2\n", "changed since: --steps all, now 12\n"})
    EXPECT_EQ(occurrences(resumed.output, part), 1) << part << resumed.output;
  EXPECT_EQ(occurrences(resumed.output, "changed since: "), 4) << resumed.output;
}

/// Runs on a file system of this size that only the command sees, in the folder `small`.
ProgramResult run_on_small(const fs::path& folder, std::int64_t kib, const std::string& command) {
  fs::create_directory(folder / "small");
  return testing_support::run_program(
      "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=" + std::to_string(kib) + "k tmpfs " +
      (folder / "small").string() + " || exit 77; " + command + "' 2>&1");
}

TEST_F(Checkpoint, OneThatCannotBeWrittenGoesToTheOtherFolder) {
  const std::string arguments = options("adamw", 2) + " --zero";
  const std::string whole = run(2, arguments + " --save-dir " + folder());
  const auto kib = [](const fs::path& file) {
    return (static_cast<std::int64_t>(fs::file_size(file)) + 4095) / 4096 * 4;
  };
  const std::int64_t beginning =
      kib(digits_.file("run") / "options.conf") + kib(checkpoints() / "last/model.safetensors");
  const std::int64_t all_but_state = beginning + kib(checkpoints() / "last/optimizer.safetensors");
  for (const std::int64_t room : {beginning, all_but_state}) {
    const std::string fallback = digits_.path("fallback" + std::to_string(room));
    const std::string metrics = digits_.path("fallback" + std::to_string(room) + ".jsonl");
    const auto result = run_on_small(digits_.file(""), room,
                                     train_command(2, arguments + " --save-dir " + digits_.path("small/run") +
                                                          " --save-fallback " + fallback + " --metrics " + metrics));
    if (result.exit_code == 77) LOCKSTEP_SKIP(namespaces) << "no file system can be mounted here: " << result.output;
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    EXPECT_EQ(result_of(result.output), whole) << "the run goes on";
    EXPECT_EQ(occurrences(result.output, "No space left on device"), 2) << result.output;
    const std::string unwritten = room == beginning ? "/optimizer.safetensors'" : "/state.json'";
    EXPECT_EQ(occurrences(result.output, unwritten), 2) << result.output;
    std::vector<std::string> paths;
    for (const auto& line : read_metrics(metrics))
      if (line.at("event") == "checkpoint") paths.push_back(line.at("path").is_null() ? "" : line.at("path"));
    for (const std::string step : {"8", "16"}) {
      const std::string name = (step == "8" ? "step-0000000" : "step-000000") + step;
      EXPECT_EQ(occurrences(result.output, "train: no checkpoint of step " + step + " in --save-dir: cannot write"), 1);
      EXPECT_EQ(occurrences(result.output, "train: the checkpoint of step " + step + " is in " + fallback +
                                               "/checkpoints/" + name + " (--save-fallback)\n"),
                1)
          << result.output;
    }
    EXPECT_EQ(occurrences(result.output, "model: " + fallback + "/checkpoints/step-00000016\n"), 1) << result.output;
    EXPECT_EQ(paths, (std::vector<std::string>{"", fallback + "/checkpoints/step-00000008", "",
                                               fallback + "/checkpoints/step-00000016"}));
    const auto resumed = run_train(3, arguments + " --resume " + fallback + "/checkpoints/step-00000008");
    EXPECT_EQ(result_of(resumed.output), whole);
    fs::rename(fallback + "/checkpoints/step-00000016", fallback + "/checkpoints/aside");
    const auto by_itself = run_train(1, arguments + " --resume auto --save-dir " + digits_.path("new") +
                                            std::to_string(room) + " --save-fallback " + fallback);
    EXPECT_EQ(occurrences(by_itself.output, "resumed from " + fallback + "/checkpoints/step-00000008"), 1)
        << by_itself.output;
    EXPECT_EQ(result_of(by_itself.output), whole);
  }
}

/// Returns the last line of the ranks' standard output. Lines of their standard error, which begin with "train: ", may
/// come before or after it, because mpiexec forwards the two streams independently.
std::string last_line_of_ranks(const std::string& output) {
  const std::regex pattern("weights sha256 [0-9a-f]+\n(?:train: [^\n]*\n)*([^\n]*)\n");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(output, found, pattern)) << output;
  return found[1].str();
}

TEST_F(Checkpoint, ARunWhoseEndIsSavedNowhereSaysSoInItsLastLineAndByItsExitCode) {
  (void)run(2, options("sgd", 1) + " --save-dir " + folder());
  const auto kib = static_cast<std::int64_t>(fs::file_size(checkpoints() / "last/model.safetensors") / 1024);
  const auto full = run_on_small(digits_.file(""), kib,
                                 train_command(2, options("sgd", 1) + " --save-dir " + digits_.path("small/run")));
  if (full.exit_code == 77) LOCKSTEP_SKIP(namespaces) << "no file system can be mounted here: " << full.output;
  EXPECT_EQ(full.exit_code, exit_not_saved) << full.output;
  EXPECT_EQ(occurrences(full.output, "model: "), 0) << full.output;
  EXPECT_TRUE(last_line_of_ranks(full.output)
                  .starts_with("not saved: no checkpoint has the state after step 8: cannot write '" +
                               digits_.path("small/run") + "/checkpoints/.new-step-00000008/"))
      << full.output;
  // The folder is removed while the run goes on, which is then stopped.
  const std::string endless = options("sgd", 10'000'000) + " --eval-interval never --save-interval never --max-time 2s";
  const auto removed = testing_support::run_program(
      "(until grep -qs '\"epoch\"' " + folder() + "2/metrics.jsonl; do sleep 0.1; done; mv " + folder() + "2 " +
      folder() + "3) & " + train_command(2, endless + " --save-dir " + folder() + "2") + " 2>&1");
  EXPECT_EQ(removed.exit_code, exit_not_saved) << removed.output;
  EXPECT_EQ(occurrences(removed.output, "\nstopped by --max-time after "), 1) << removed.output;
  EXPECT_NE(last_line_of_ranks(removed.output).find(": No such file or directory; "), std::string::npos)
      << removed.output;
}

/// Each rank has a working folder of its own, as on hosts without a common file system.
TEST_F(Checkpoint, ARunSaysWhichHostsDoNotSeeItsFolder) {
  const std::string arguments = options("sgd", 1) + " --save-dir run";
  const std::string in_own_folder = " sh -c 'mkdir -p " + folder() + ".$$ && cd " + folder() + ".$$ && exec " +
                                    LOCKSTEP_TRAIN + " " + arguments + "'";
  const auto result = testing_support::run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 2" + in_own_folder + " 2>&1");
  EXPECT_EQ(result.exit_code, exit_success) << result.output;
  EXPECT_NE(result.output.find("the host of rank 0, which writes and reads it"), std::string::npos) << result.output;
  const auto common = run_train(2, options("sgd", 1) + " --save-dir " + folder());
  EXPECT_EQ(common.output.find("the host of rank 0"), std::string::npos) << common.output;
}

TEST_F(Checkpoint, ARunWhoseFolderCannotBeWrittenSaysSoAtTheStart) {
  std::ofstream(digits_.file("file")) << "no folder";
  expect_refused(run_train(2, options("sgd", 1) + " --save-dir " + digits_.path("file") + "/run"), exit_error,
                 {digits_.path("file")});
}

}  // namespace
}  // namespace lockstep::train
