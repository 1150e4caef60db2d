// SPDX-License-Identifier: Apache-2.0
// Runs comm-bench on emulated GPUs. The speed has no meaning, but every path through the program is tested.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

ProgramResult run(int ranks, const std::string& arguments, const std::string& environment = "") {
  return run_program(environment + " " + LOCKSTEP_MPIEXEC + " -n " + std::to_string(ranks) + " " + LOCKSTEP_COMM_BENCH +
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

TEST(CommBenchOf2, SaysWhatIsWrongWithTheDriver) {
  const std::pair<int, const char*> drivers[] = {
      {11080, "the NVIDIA driver serves CUDA up to 11.8, and lockstep was built with CUDA "},
      {0, "no NVIDIA driver was found (libcuda.so.1)"}};
  const std::string machine = testing::TempDir() + "/old_driver.json";
  for (const auto& [driver, message] : drivers) {
    std::ofstream(machine) << R"({"driver": )" << driver << R"(, "gpus": []})";
    const ProgramResult result = run(2, "", "EMULATED_GPU_MACHINE='" + machine + "'");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_NE(result.output.find(message), std::string::npos) << result.output;
  }
}

}  // namespace
}  // namespace lockstep::testing_support
