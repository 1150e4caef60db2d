// SPDX-License-Identifier: Apache-2.0
#include "schedules/faults.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

/// Tests ranks that stop, throw, die, abort or call something else, at any moment of any schedule.
namespace lockstep::schedules {
namespace {

TEST(Faults, EndInErrorsThatLeadToTheRankAtFault) {
  const char* const number = std::getenv("LOCKSTEP_SCHEDULES");
  const char* const first = std::getenv("LOCKSTEP_FIRST_SCHEDULE");
  const std::uint64_t count = number == nullptr ? 1000 : std::stoull(number);
  FaultTally tally;
  const auto complaint = explore_faults(first == nullptr ? 0 : std::stoull(first), count, {.min_ranks = 2}, tally);
  EXPECT_FALSE(complaint) << *complaint;
  EXPECT_GT(tally.failed, count / 3) << "faults came too late to matter";
  EXPECT_GT(tally.traced, count / 8);
  EXPECT_LE(tally.late, count / 100) << "what can be known is known before the deadline";
  RecordProperty("failed", static_cast<int>(tally.failed));
  RecordProperty("traced", static_cast<int>(tally.traced));
  RecordProperty("late", static_cast<int>(tally.late));
}

}  // namespace
}  // namespace lockstep::schedules
