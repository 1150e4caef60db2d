// SPDX-License-Identifier: Apache-2.0
#include "support/verdict.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

/// Returns the exit code that CTest sees for these cases of the probe.
int exit_code(const std::string& filter, const std::string& required = "") {
  return run_program("LOCKSTEP_REQUIRE=" + required + " " + LOCKSTEP_PROBE + " --gtest_filter='" + filter + "' 2>&1")
      .exit_code;
}

TEST(Verdict, SkippedAloneIsSkippedAndBesideOthersIsNot) {
  EXPECT_EQ(exit_code("*.IsSkippedForItsRanks"), all_skipped);
  EXPECT_EQ(exit_code("*.Passes:*.IsSkippedForItsRanks"), 0);
}

TEST(Verdict, AFailureBesideASkipIsAFailure) { EXPECT_EQ(exit_code("*.Fails:*.IsSkippedForItsRanks"), 1); }

TEST(Verdict, ARequiredReasonIsAFailure) {
  EXPECT_EQ(exit_code("*.IsSkippedForItsRanks", "gpu,ranks"), 1);
  EXPECT_EQ(exit_code("*.IsSkippedForItsRanks", "gpu,rank"), all_skipped);
  EXPECT_EQ(exit_code("*.Passes:*.IsSkippedForItsRanks", "ranks"), 1);
}

TEST(Verdict, ASkipWithoutReasonIsAFailure) { EXPECT_EQ(exit_code("*.IsSkippedForNoReason"), 1); }

TEST(Verdict, NothingRunIsAFailure) { EXPECT_EQ(exit_code("*.NoSuchCase"), 1); }

TEST(Files, AreThoseOfOneEntryAndMustHoldACase) {
  const auto run = [](const std::string& files) {
    return run_program(std::string(LOCKSTEP_PROBE) + " --files=" + files + " 2>&1");
  };
  EXPECT_EQ(occurrences(run("other.cpp,skipping_probe.cpp").output, "Running 4 tests"), 1);
  EXPECT_EQ(occurrences(run("other.cpp").output, "no test is defined"), 1);
}

}  // namespace
}  // namespace lockstep::testing_support
