// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/collectives/plan.hpp"
#include "lockstep/collectives/schedule.hpp"

namespace lockstep::collectives {
namespace {

using Steps = std::vector<int>;

constexpr Range output(std::int64_t offset, std::int64_t count) { return {Memory::output, offset, count}; }
constexpr Range input(int leaf, std::int64_t count) { return {Memory::input, 0, count, leaf}; }

TEST(Dependencies, ReadWaitsForTheWritesItOverlaps) {
  const auto d = dependencies(
      {.steps = {Receive{1, output(0, 4)}, Receive{2, output(4, 4)}, Send{3, output(2, 4)}, Send{4, output(8, 4)}}});
  EXPECT_EQ(d[2].done, (Steps{0, 1}));
  EXPECT_EQ(d[3].done, Steps{});
}

TEST(Dependencies, WriteWaitsForReaders) {
  const auto d = dependencies({.steps = {Send{1, output(0, 4)}, Send{2, output(0, 4)}, Receive{3, output(3, 1)}}});
  EXPECT_EQ(d[1].done, Steps{});
  EXPECT_EQ(d[2].done, (Steps{0, 1}));
}

TEST(Dependencies, WriteWaitsForAnEarlierWrite) {
  const auto d = dependencies({.steps = {Fill{output(0, 4)}, Receive{1, output(0, 2)}}});
  EXPECT_EQ(d[1].done, Steps{0});
}

TEST(Dependencies, OtherMemoriesAndLeavesDoNotMatter) {
  const auto d = dependencies(
      {.steps = {Copy{output(0, 4), input(0, 4)}, Copy{output(4, 4), input(1, 4)}, Receive{1, {Memory::scratch, 0, 4}}},
       .scratch = {4}});
  EXPECT_EQ(d[1].done, Steps{});
  EXPECT_EQ(d[2].done, Steps{});
}

TEST(Dependencies, MessagesWithOnePeerStartInOrder) {
  const auto d = dependencies({.steps = {Send{1, output(0, 1)}, Receive{1, output(1, 1)}, Send{2, output(2, 1)},
                                         Send{1, output(3, 1)}, Receive{1, output(4, 1)}, Send{1, output(4, 1)}}});
  EXPECT_EQ(d[2].started, Steps{});
  EXPECT_EQ(d[3].started, Steps{0});
  EXPECT_EQ(d[4].started, Steps{1});
  EXPECT_EQ(d[5].started, Steps{3});
  EXPECT_EQ(d[5].done, Steps{4});
}

TEST(Dependencies, WhatFollowsIsLeftOut) {
  const auto d =
      dependencies({.steps = {Receive{1, output(0, 8)}, Reduce{output(0, 4), output(4, 4)}, Send{2, output(0, 8)}}});
  EXPECT_EQ(d[2].done, Steps{1});  // step 1 waits for step 0
}

TEST(Dependencies, SignalIsSentAfterThoseThatCame) {
  const auto d = dependencies({.steps = {Send{1, output(0, 0)}, Receive{2, output(0, 0)}, Send{2, output(0, 0)}}});
  EXPECT_EQ(d[2].done, Steps{1});
}

TEST(Dependencies, GrowLinearlyWithALongPlan) {
  const Plan plan = make_plan({5}, {.ranks = 1024, .count = {1 << 20}, .own = {.in_place = true}}, Algorithm::ring);
  const auto all = dependencies(plan);
  ASSERT_EQ(all.size(), 4u * 1023);
  for (const Dependencies& d : all) ASSERT_LE(d.done.size() + d.started.size(), 3u);
}

}  // namespace
}  // namespace lockstep::collectives
