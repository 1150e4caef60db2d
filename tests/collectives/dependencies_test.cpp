// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "collectives/plan/plan.hpp"
#include "collectives/schedule/schedule.hpp"

namespace lockstep::collectives {
namespace {

using Steps = std::vector<int>;

constexpr Range out(std::int64_t offset, std::int64_t count) { return {Memory::output, offset, count}; }
constexpr Range in(int leaf, std::int64_t count) { return {Memory::input, 0, count, leaf}; }

TEST(Dependencies, ReadWaitsForTheWritesItOverlaps) {
  const auto d =
      dependencies({.steps = {Receive{1, out(0, 4)}, Receive{2, out(4, 4)}, Send{3, out(2, 4)}, Send{4, out(8, 4)}}});
  EXPECT_EQ(d[2].done, (Steps{0, 1}));
  EXPECT_EQ(d[3].done, Steps{});
}

TEST(Dependencies, WriteWaitsForReaders) {
  const auto d = dependencies({.steps = {Send{1, out(0, 4)}, Send{2, out(0, 4)}, Receive{3, out(3, 1)}}});
  EXPECT_EQ(d[1].done, Steps{});
  EXPECT_EQ(d[2].done, (Steps{0, 1}));
}

TEST(Dependencies, WriteWaitsForAnEarlierWrite) {
  const auto d = dependencies({.steps = {Fill{out(0, 4)}, Receive{1, out(0, 2)}}});
  EXPECT_EQ(d[1].done, Steps{0});
}

TEST(Dependencies, OtherMemoriesAndLeavesDoNotMatter) {
  const auto d = dependencies(
      {.steps = {Copy{out(0, 4), in(0, 4)}, Copy{out(4, 4), in(1, 4)}, Receive{1, {Memory::scratch, 0, 4}}},
       .scratch = {4}});
  EXPECT_EQ(d[1].done, Steps{});
  EXPECT_EQ(d[2].done, Steps{});
}

TEST(Dependencies, MessagesWithOnePeerStartInOrder) {
  const auto d = dependencies({.steps = {Send{1, out(0, 1)}, Receive{1, out(1, 1)}, Send{2, out(2, 1)},
                                         Send{1, out(3, 1)}, Receive{1, out(4, 1)}, Send{1, out(4, 1)}}});
  EXPECT_EQ(d[2].started, Steps{});
  EXPECT_EQ(d[3].started, Steps{0});
  EXPECT_EQ(d[4].started, Steps{1});
  EXPECT_EQ(d[5].started, Steps{3});
  EXPECT_EQ(d[5].done, Steps{4});
}

TEST(Dependencies, WhatFollowsIsLeftOut) {
  const auto d = dependencies({.steps = {Receive{1, out(0, 8)}, Reduce{out(0, 4), out(4, 4)}, Send{2, out(0, 8)}}});
  EXPECT_EQ(d[2].done, Steps{1});  // step 1 already waits for step 0
}

TEST(Dependencies, SignalIsSentAfterThoseThatCame) {
  const auto d = dependencies({.steps = {Send{1, out(0, 0)}, Receive{2, out(0, 0)}, Send{2, out(0, 0)}}});
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
