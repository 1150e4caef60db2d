// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/stragglers.hpp"

#include <gtest/gtest.h>

namespace lockstep::trainer {
namespace {

const std::vector<std::string> hosts = {"a", "a", "b", "b"};

TEST(SlowRanks, TheSlowestComesFirstAndOthersFollowByWhatTheyLose) {
  const std::vector<RankTime> times = {{0, 10, 200}, {0, 210, 0}, {150, 10, 50}, {0, 10, 200}};
  const auto slow = slow_ranks(times, hosts, 10);
  ASSERT_EQ(slow.size(), 2U);
  EXPECT_EQ(slow[0].rank, 1);
  EXPECT_EQ(slow[0].host, "a");
  EXPECT_EQ(slow[0].cause, "compute");
  EXPECT_EQ(slow[0].seconds, 21);
  EXPECT_EQ(slow[0].usual_seconds, 1);
  EXPECT_EQ(slow[0].wait_seconds, 0);
  EXPECT_EQ(slow[1].rank, 2);
  EXPECT_EQ(slow[1].host, "b");
  EXPECT_EQ(slow[1].cause, "data");
  EXPECT_EQ(slow[1].seconds, 15);
  EXPECT_EQ(slow[1].usual_seconds, 0);
  EXPECT_TRUE(slow[0].is_straggler && slow[1].is_straggler);
}

TEST(SlowRanks, OfTwoRanksTheFasterOneIsTheUsualOne) {
  const auto slow = slow_ranks(std::vector<RankTime>{{0, 10, 10}, {0, 20, 0}}, hosts, 1);
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].rank, 1);
  EXPECT_EQ(slow[0].usual_seconds, 10);
}

TEST(SlowRanks, WhereAllAreAlikeTheSlowestIsNamedButIsNoStraggler) {
  const auto slow = slow_ranks(std::vector<RankTime>{{1, 99, 2}, {1, 101, 0}, {1, 100, 1}}, hosts, 1);
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].rank, 1);
  EXPECT_EQ(slow[0].cause, "compute");
  EXPECT_FALSE(slow[0].is_straggler);
}

TEST(SlowRanks, ARankCanBeSlowForBothReasons) {
  const auto slow = slow_ranks(std::vector<RankTime>{{0, 10, 60}, {0, 10, 60}, {20, 50, 0}}, hosts, 1);
  ASSERT_EQ(slow.size(), 2U);
  EXPECT_EQ(slow[0].cause, "compute");
  EXPECT_EQ(slow[1].cause, "data");
  EXPECT_EQ(slow[0].rank, 2);
  EXPECT_EQ(slow[1].rank, 2);
}

TEST(SlowRanks, ASingleRankOrNoStepNamesNobody) {
  EXPECT_TRUE(slow_ranks(std::vector<RankTime>{{1, 2, 3}}, hosts, 4).empty());
  EXPECT_TRUE(slow_ranks(std::vector<RankTime>{{1, 2, 3}, {4, 5, 6}}, hosts, 0).empty());
}

}  // namespace
}  // namespace lockstep::trainer
