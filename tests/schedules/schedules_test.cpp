// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "schedules/explorer.hpp"

/// Runs all ranks of a cluster in one thread. A seed decides which rank continues, and for how long, after every step
/// of a plan. LOCKSTEP_SCHEDULES is the number of schedules, LOCKSTEP_FIRST_SCHEDULE the first one.
namespace lockstep::schedules {
namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

TEST(Schedules, LeaveEveryElementOfEveryResultRight) {
  const auto failure = explore(number("LOCKSTEP_FIRST_SCHEDULE", 0), number("LOCKSTEP_SCHEDULES", 10'000), {});
  EXPECT_FALSE(failure) << *failure;
}

TEST(Schedules, AreRepeatedExactlyByTheirSeed) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const comm_check::Scenario scenario = comm_check::draw_scenario(seed, {});
    EXPECT_EQ(run(scenario, seed).trace, run(scenario, seed).trace) << seed;
  }
  const comm_check::Scenario scenario = comm_check::draw_scenario(3, {.min_ranks = 4});
  EXPECT_NE(run(scenario, 1).trace, run(scenario, 2).trace);
}

/// Tags of 15 bits have at most 3 bits for the number of the operation. A rank that is further ahead than they can
/// count must not be mistaken for one that calls something else.
TEST(Schedules, LetARankBeFarAheadWithShortTags) {
  constexpr int operations = 40;
  std::uint64_t most_ahead = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    comm_check::Scenario scenario{.seed = seed, .ranks = 3, .in_flight = operations, .rounds = {{}}};
    scenario.groups.push_back({.members = {0, 1, 2}, .setting = seed});
    const CollectiveKind kind = seed % 2 == 0 ? CollectiveKind::reduce : CollectiveKind::broadcast;
    for (int k = 0; k < operations; ++k)
      scenario.rounds[0].push_back({.kind = kind, .root = static_cast<int>(seed % 3), .count = 1 + k});
    const Outcome outcome = run(scenario, seed);
    ASSERT_FALSE(outcome.failure) << seed << ": " << *outcome.failure;
    most_ahead = std::max(most_ahead, outcome.most_ahead);
  }
  EXPECT_GT(most_ahead, 32U);
}

/// Shows the purpose of the slot rule, and that these tests detect its absence.
TEST(Schedules, FindThatASlotIsOpenedTooEarly) {
  const WithoutSlotRule mistake;
  const auto failure = explore(0, 3000, {.min_ranks = 3});
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->find("shortest: "), std::string::npos) << *failure;
}

}  // namespace
}  // namespace lockstep::schedules
