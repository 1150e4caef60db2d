// SPDX-License-Identifier: Apache-2.0
// Test cases with every kind of result; verdict_test runs some of them at a time.
#include <gtest/gtest.h>

#include "support/verdict.hpp"

TEST(Probe, Passes) {}
TEST(Probe, Fails) { FAIL(); }
TEST(Probe, IsSkippedForItsRanks) { LOCKSTEP_SKIP(ranks) << "as one of several reasons"; }
TEST(Probe, IsSkippedForNoReason) { GTEST_SKIP() << "without a reason in brackets"; }
