// SPDX-License-Identifier: Apache-2.0
// --comm-timeout applies from the start of MPI to its end. A rank that does not answer ends the run and is named,
// together with the operation that waited for it, and with what all ranks do. lockstep-stacks shows this of a running
// job.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "apps/train/train_program.hpp"
#include "base/text_file.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/background_job.hpp"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Runs two ranks with one command line and rank 1 with another; kills the job if it does not end by itself.
ProgramResult run_with_odd_rank(const std::string& most, const std::string& odd) {
  const std::string train = std::string(" -np 1 ") + LOCKSTEP_TRAIN + ' ';
  return testing_support::run_program("timeout -s KILL 60 " + std::string(LOCKSTEP_MPIEXEC) + train + most + " :" +
                                      train + odd + " :" + train + most + " 2>&1");
}

TEST(Deadline, ARankThatBlocksWhileItLoadsDataIsNamed) {
  const SmallDigits digits;
  const SmallDigits blocked;
  const std::string pipe = blocked.path("train-images-idx3-ubyte");
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string more = " --batch 16 --comm-timeout 2";
  const auto result = run_with_odd_rank(digits.arguments() + more, blocked.arguments() + more);
  EXPECT_EQ(result.exit_code, exit_timeout) << result.output;
  EXPECT_EQ(occurrences(result.output, "train: "), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "has not finished loading the data set 'mnist' from its --data-dir within 2 s"),
            1)
      << result.output;
  // The stack of the odd rank comes first.
  const std::size_t odd = result.output.find(" is here:");
  EXPECT_EQ(result.output.substr(result.output.rfind('\n', odd) + 1, 14), "  | rank 1 on ") << result.output;
  const std::string stack = result.output.substr(odd, result.output.find(" here:", odd + 9) - odd);
  EXPECT_NE(stack.find("lockstep::vision::read_idx"), std::string::npos) << result.output;
  EXPECT_GE(occurrences(result.output, "2 of 3 ranks (ranks 0 on "), 1) << result.output;
}

/// No rank waits for another one, so that only the watchdogs can notice it.
TEST(Deadline, RanksThatAllBlockInAFileEndTheRun) {
  const SmallDigits blocked;
  const std::string pipe = blocked.path("train-images-idx3-ubyte");
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto result = run_with_odd_rank(blocked.arguments() + " --batch 16 --comm-timeout 2",
                                        blocked.arguments() + " --batch 16 --comm-timeout 2");
  EXPECT_EQ(result.exit_code, exit_timeout) << result.output;
  for (const char* part : {"no thread has computed, read or written for ", " while loading the data set 'mnist'",
                           "3 of 3 ranks (ranks 0 on ", "lockstep::vision::read_idx"})
    EXPECT_GE(occurrences(result.output, part), 1) << part << '\n' << result.output;
}

/// Returns a new named pipe, in the place of what has this name.
std::string pipe_at(const std::string& path) {
  std::filesystem::remove(path);
  EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
  return path;
}

/// A rank without others, to which nobody but its own watchdog pays attention, and whose display goes on meanwhile. The
/// jobs run at the same time, each until it has waited for its file.
TEST(Deadline, ARankAloneDoesNotWaitForAFileForEver) {
  const SmallDigits digits;
  const SmallDigits blocked;
  pipe_at(blocked.path("train-images-idx3-ubyte"));
  const std::string full = pipe_at(digits.path("full"));
  const Descriptor reader(open(full.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fcntl(reader.get(), F_SETPIPE_SZ, 4096), 4096);
  ASSERT_TRUE(write_all(reader.get(), std::string(4096, '-')));
  const std::string rest = " --batch 16 --save-dir none --comm-timeout 1";
  const auto alone = [&](const std::string& arguments) { return LOCKSTEP_TRAIN + arguments + rest; };
  struct Case {
    std::string command;
    std::vector<std::string> parts;
  };
  const std::string idle = "no thread has computed, read or written for ";
  const std::vector<Case> cases = {
      // On a terminal, something is written each second.
      {"script -qec '" + alone(blocked.arguments()) + "' /dev/null", {idle, "loading the data set", "read_idx"}},
      {alone(digits.arguments() + " --metrics " + pipe_at(digits.path("metrics"))), {idle, "opening the files"}},
      {alone(digits.arguments()) + " >" + full, {idle, "showing the cluster"}},
      {alone(digits.arguments() + " --config " + pipe_at(digits.path("config"))),
       {"config: the file has not been read within 1 s"}}};
  std::vector<std::unique_ptr<testing_support::BackgroundJob>> jobs;
  const auto output_of = [&](std::size_t i) { return digits.path("output" + std::to_string(i)); };
  for (std::size_t i = 0; i < cases.size(); ++i)
    jobs.push_back(std::make_unique<testing_support::BackgroundJob>(cases[i].command, output_of(i)));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const bool has_ended = testing_support::becomes_true(30s, [&] { return jobs[i]->has_ended(); });
    std::ostringstream text;
    text << std::ifstream(output_of(i)).rdbuf();
    ASSERT_TRUE(has_ended) << cases[i].command << '\n' << text.str();
    EXPECT_EQ(jobs[i]->exit_code(), exit_timeout) << cases[i].command << '\n' << text.str();
    for (const std::string& part : cases[i].parts)
      EXPECT_GE(occurrences(text.str(), part), 1) << part << '\n' << cases[i].command << '\n' << text.str();
  }
}

TEST(Deadline, TheStacksOfARunningJobAreShown) {
  const SmallDigits digits;
  const std::string output = digits.path("output.txt");
  testing_support::BackgroundJob job(
      train_command(2, digits.arguments() + " --batch 16 --epochs 1000000 --log-every 1000000"), output);
  const std::string marker = digits.arguments().substr(digits.arguments().rfind(' ') + 1);
  ProgramResult shown;
  // Until the second rank trains, too.
  EXPECT_TRUE(testing_support::becomes_true(30s, [&] {
    const auto ranks = testing_support::processes(LOCKSTEP_TRAIN, marker);
    if (ranks.size() < 2) return false;
    shown = testing_support::run_program(LOCKSTEP_STACKS " " + std::to_string(ranks.back()) + " 2>&1");
    return occurrences(shown.output, "lockstep::trainer::Trainer::train_steps") > 0;
  })) << shown.output;
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_EQ(occurrences(shown.output, "no answer"), 0) << shown.output;
  EXPECT_FALSE(job.has_ended());
  job.send(SIGKILL);
  const auto none = testing_support::run_program(LOCKSTEP_STACKS " 1 2>&1");
  EXPECT_EQ(none.exit_code, 1) << none.output;
  EXPECT_EQ(testing_support::run_program(LOCKSTEP_STACKS " nonsense 2>&1").exit_code, 2);
}

TEST(Deadline, ATraceThatOneRankAsksForIsOfAllRanks) {
  const SmallDigits digits;
  const std::string common = digits.arguments() + " --batch 16 --epochs 1 --comm-timeout 20";
  const std::string trace = digits.path("trace.json");
  const auto result = run_with_odd_rank(common, common + " --trace " + trace);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "trace: " + trace), 1) << result.output;
  std::ostringstream text;
  text << std::ifstream(trace).rdbuf();
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) EXPECT_GE(occurrences(text.str(), rank), 1) << rank;
  const auto two = run_with_odd_rank(common + " --trace " + trace, common + " --trace " + digits.path("other.json"));
  expect_refused(two, 1, {"rank 1 on ", "other.json", "rank 0 writes one file for all ranks"});
}

/// Returns the process that is rank 1, as soon as there is one.
pid_t second_rank(const std::string& marker) {
  pid_t found = 0;
  testing_support::becomes_true(10s, [&] {
    for (const pid_t process : testing_support::processes(LOCKSTEP_TRAIN, marker))
      if (testing_support::rank_of(process) == 1) found = process;
    return found != 0;
  });
  return found;
}

constexpr int in_training = -1;
class ARankThatIsStopped : public testing::TestWithParam<int> {};

/// The rank is stopped while MPI starts, later in the start of the run, or in training.
TEST_P(ARankThatIsStopped, EndsTheRunAndIsNamed) {
  const SmallDigits digits;
  const std::string output = digits.path("output.txt");
  testing_support::BackgroundJob job(
      train_command(3, digits.arguments() + " --batch 16 --epochs 1000000 --log-every 1000000 --comm-timeout 2"),
      output);
  const std::string marker = digits.arguments().substr(digits.arguments().rfind(' ') + 1);
  const pid_t victim = second_rank(marker);
  ASSERT_GT(victim, 0);
  const auto printed = [&] {
    std::ostringstream text;
    text << std::ifstream(output).rdbuf();
    return text.str();
  };
  if (GetParam() == in_training) {
    ASSERT_TRUE(testing_support::becomes_true(30s, [&] { return printed().find("epoch 1/") != std::string::npos; }))
        << printed();
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(GetParam()));
  }
  kill(victim, SIGSTOP);
  // Open MPI 4.1's mpirun now and then waits for ever if ranks end while they connect (docs/launch.md: lockstep-launch
  // ends it); then the other ranks have ended, and said why.
  const auto others_have_ended = [&] {
    const auto left = testing_support::processes(LOCKSTEP_TRAIN, marker);
    return printed().find("train: ") != std::string::npos &&
           std::all_of(left.begin(), left.end(), [&](pid_t process) { return process == victim; });
  };
  const bool has_ended = testing_support::becomes_true(30s, [&] { return job.has_ended(); });
  const bool mpirun_hangs = !has_ended && GetParam() != in_training && others_have_ended();
  if (mpirun_hangs) std::printf("mpirun itself hangs: all ranks but the stopped one have ended, and said why\n");
  EXPECT_TRUE(has_ended || mpirun_hangs) << printed();
  kill(victim, SIGKILL);
  if (job.has_ended()) {
    EXPECT_NE(job.exit_code(), 0);
  }
  const std::string text = printed();
  EXPECT_GE(occurrences(text, "rank 1"), 1) << text;
  EXPECT_GE(occurrences(text, "train: "), 1) << text;
  if (GetParam() != in_training) return;  // it may have been stopped before there were groups, or in MPI_Init
  EXPECT_GE(occurrences(text, ": its process is stopped; "), 1) << text;
  EXPECT_GE(occurrences(text, "2 of 3 ranks (ranks 0 on "), 1) << text;
}

INSTANTIATE_TEST_SUITE_P(AfterMilliseconds, ARankThatIsStopped, testing::Values(0, 200, in_training));

}  // namespace
}  // namespace lockstep::train
