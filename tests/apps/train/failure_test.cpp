// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <thread>

#include "apps/train/train_program.hpp"
#include "support/background_job.hpp"

namespace lockstep::train {
namespace {

TEST(Failure, BatchSmallerThanRanks) {
  const SmallDigits digits;
  expect_refused(run_train(3, digits.arguments() + " --batch 2"), 1,
                 {"a batch of 2 is the total over all ranks and smaller than their number, 3"});
}

TEST(Failure, BatchLargerThanTheDataSet) {
  const SmallDigits digits;
  expect_refused(run_train(2, digits.arguments() + " --batch 97"), 1,
                 {"a batch of 97 is more than the data set's 96 training images"});
}

TEST(Failure, GradientsThatAreNotFiniteNameTheStepAndEveryRankWhoseOwnTheyWere) {
  const SmallDigits digits;
  // The first update makes every weight too large for float32.
  const auto result = run_train(2, digits.arguments() + " --batch 16 --lr 1e38 --weight-decay 1e38 --epochs 3");
  // How many tensors have such gradients depends on the processor.
  expect_refused(result, 1,
                 {": diverged: gradients are not finite: 'fc2.bias' and ", " more on rank 0 (", "), 'fc2.bias' and ",
                  " more on rank 1 (", "step 2", "on ranks 0 1)", "A lower learning rate may help"});
  EXPECT_EQ(occurrences(result.output, "steps in"), 0) << "no summary\n" << result.output;
}

TEST(Failure, OutputThatCannotBeWrittenIsKnownBeforeTraining) {
  const SmallDigits digits;
  for (const std::string option : {"--metrics", "--trace"}) {
    const std::string path = digits.path("missing/out.json");
    const auto result = run_train(2, digits.arguments() + " --batch 16 " + option + ' ' + path);
    expect_refused(result, 1, {"cannot write " + path + ": No such file or directory", "train: rank 0"});
    EXPECT_EQ(occurrences(result.output, "train loss"), 0) << result.output;
  }
}

/// Runs two ranks with one command line, and a third with another.
ProgramResult run_unequal(const std::string& most, const std::string& odd) {
  const auto command = [](const std::string& arguments) { return LOCKSTEP_TRAIN + arguments; };
  return testing_support::run_program(std::string(LOCKSTEP_MPIEXEC) + " -np 2 " + command(most) + " : -np 1 " +
                                      command(odd) + " 2>&1");
}

TEST(Failure, OptionsThatDifferBetweenRanksAreNamed) {
  const SmallDigits digits;
  const std::string common = digits.arguments() + " --batch 16 --epochs 1";
  const auto of_the_command_line = run_unequal(common + " --lr 0.1", common + " --lr 0.2 --seed 3");
  expect_refused(of_the_command_line, 1,
                 {"mismatch: rank 2 on ", " has --lr 0.2, the other 2 have 0.1", " has --seed 3"});
  const auto of_a_seventh_digit = run_unequal(common + " --lr 0.1", common + " --lr 0.1000001");
  expect_refused(of_a_seventh_digit, 1, {" has --lr 0.1000001, the other 2 have 0.1"});
  data::write_plain(digits.file("odd.conf"), "momentum = 0.5\n");
  const auto of_a_file = run_unequal(common + " --momentum 0.75", common + " --config " + digits.path("odd.conf"));
  expect_refused(of_a_file, 1, {"has --momentum 0.5, the other 2 have 0.75"});
  const auto of_a_mistake = run_unequal(common, common + " --epochz 1");
  expect_refused(of_a_mistake, 2, {"rank 2 on ", ": there is no option '--epochz'"});
}

TEST(Failure, OptionsThatMayDifferMay) {
  const SmallDigits digits;
  const std::string common = digits.arguments() + " --batch 16 --epochs 1 --initial compare";
  const auto result = run_unequal(common, common + " --workers 0 --log-every 7");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

std::string checksum_of(const std::string& output) {
  const std::size_t at = output.find("weights sha256 ");
  return at == std::string::npos ? "no checksum in\n" + output : output.substr(at, 79);
}

/// Two jobs of one user on one node have their folders, their shared memory and their failures for themselves.
TEST(Failure, TwoJobsOnOneNodeDoNotDisturbEachOther) {
  using namespace std::chrono_literals;
  using testing_support::BackgroundJob;
  using testing_support::becomes_true;
  const SmallDigits digits;
  const std::string options = digits.arguments() + " --batch 16 --shards 4 --threads 1 --log-every 1 --epochs ";
  const auto folder = [&](const std::string& name) { return " --save-dir " + digits.path(name); };
  const std::string alone = checksum_of(run_train(2, options + "12" + folder("alone")).output);
  ASSERT_TRUE(alone.starts_with("weights")) << alone;
  // Both are given the same folder, of which one gets it and the other a free one.
  BackgroundJob first(train_command(2, options + "12" + folder("both")), digits.file("first.txt"));
  BackgroundJob second(train_command(2, options + "12" + folder("both")), digits.file("second.txt"));
  BackgroundJob third(train_command(2, options + "100000" + folder("third")), digits.file("third.txt"));
  const std::string metrics = digits.path("third") + "/metrics.jsonl";
  const auto trains = [&] {
    return std::filesystem::exists(metrics) && occurrences(data::read_all(metrics), R"("event":"step")") > 1;
  };
  EXPECT_TRUE(becomes_true(60s, trains));
  const auto ranks = testing_support::processes(LOCKSTEP_TRAIN, digits.path("third"));
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks.front(), SIGKILL);
  for (BackgroundJob* job : {&first, &second, &third})
    EXPECT_TRUE(becomes_true(120s, [&] { return job->has_ended(); }));
  EXPECT_EQ(checksum_of(data::read_all(digits.file("first.txt"))), alone);
  EXPECT_EQ(checksum_of(data::read_all(digits.file("second.txt"))), alone);
  EXPECT_NE(third.exit_code(), 0);
  for (const char* name : {"both", "both-2"})
    EXPECT_TRUE(std::filesystem::exists(digits.path(name) + "/checkpoints/last")) << name;
}

}  // namespace
}  // namespace lockstep::train
