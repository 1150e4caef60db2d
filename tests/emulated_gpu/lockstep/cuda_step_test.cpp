// SPDX-License-Identifier: Apache-2.0
// Tests examples/cuda_step.cu from the source that users get. The weights are the same on any number of ranks, whether
// its steps are queued one by one or one of them is captured, with the all-reduce, and replayed.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

TEST(CudaStep, TrainsToTheSameBitsOnAnyNumberOfRanksAsAGraphOrNot) {
  std::set<std::string> results;  // the text from "loss" on
  for (const int ranks : {1, 2, 4}) {
    for (const char* manner : {"", "--eager "}) {
      const ProgramResult result = run_program(std::string(LOCKSTEP_MPIEXEC) + " -n " + std::to_string(ranks) + " " +
                                               LOCKSTEP_CUDA_STEP + " " + manner + "12 2>&1");
      ASSERT_EQ(result.exit_code, 0) << ranks << " ranks " << manner << "\n" << result.output;
      EXPECT_EQ(occurrences(result.output, "12 steps, loss "), ranks) << result.output;
      std::istringstream lines(result.output);
      for (std::string line; std::getline(lines, line);)
        if (const auto at = line.find("loss "); at != std::string::npos) results.insert(line.substr(at));
    }
  }
  EXPECT_EQ(results.size(), 1U) << testing::PrintToString(results);
}

}  // namespace
}  // namespace lockstep::testing_support
