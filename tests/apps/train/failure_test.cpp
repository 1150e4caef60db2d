// SPDX-License-Identifier: Apache-2.0
#include "apps/train/train_program.hpp"

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
                  " more on rank 1 (", "step 2", "peer ranks 0 1", "A lower learning rate may help"});
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

}  // namespace
}  // namespace lockstep::train
