// SPDX-License-Identifier: Apache-2.0
// comm-bench on emulated GPUs: it says nothing about speed, but every way through the program is gone.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

ProgramResult run(int ranks, const std::string& arguments) {
  return run_program(std::string(LOCKSTEP_MPIEXEC) + " -n " + std::to_string(ranks) + " " + LOCKSTEP_COMM_BENCH +
                     " --device cuda --warmup 1 --repetitions 3 " + arguments + " 2>&1");
}

class CommBench : public testing::TestWithParam<int> {};

TEST_P(CommBench, MeasuresEachAlgorithmThatIsNcclsOrOurs) {
  std::vector<std::string> algorithms = {"auto,tree-order"};
  if (GetParam() == 2) algorithms.insert(algorithms.end(), {"ring", "tree"});
  for (const std::string& algorithm : algorithms) {
    const ProgramResult result = run(GetParam(), std::string("--min 4 --max 16K --factor 16 --algorithm ") + algorithm);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("16384"), std::string::npos) << result.output;
  }
}

INSTANTIATE_TEST_SUITE_P(, CommBench, testing::Values(1, 2, 4), testing::PrintToStringParamName());

TEST(CommBenchOf2, MeasuresOtherOperations) {
  for (const char* operation : {"broadcast", "reduce_scatter", "all_to_all", "barrier", "all_gather_v"}) {
    const ProgramResult result = run(2, std::string("--min 1K --max 1K --op ") + operation);
    EXPECT_EQ(result.exit_code, 0) << operation << "\n" << result.output;
  }
}

}  // namespace
}  // namespace lockstep::testing_support
