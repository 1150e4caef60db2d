// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/schedule.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

TEST(Blocks, CoverTheBufferExactly) {
  for (const std::int64_t total : {0, 1, 5, 6, 7, 12, 1009})
    for (const std::int64_t block : {1, 2, 6, 7, 5000}) {
      const Blocks blocks({total}, {block});
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < blocks.size(); ++i) {
        EXPECT_EQ(blocks[i].offset, end);
        EXPECT_GT(blocks[i].count, 0);
        EXPECT_EQ(blocks[i].count, i + 1 < blocks.size() ? block : total - end);
        end += blocks[i].count;
      }
      EXPECT_EQ(end, total);
    }
}

TEST(Schedule, ViewsCoverEveryPartExactly) {
  constexpr int ranks = 3;
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
    for (const std::int64_t part : {1, 4, 5, 13}) {
      const Schedule schedule =
          make_schedule({1}, {.kind = kind, .ranks = ranks, .count = {part}}, Algorithm::ring, {4});
      std::vector<int> touched(static_cast<std::size_t>(ranks * part));
      for (std::int64_t b = 0; b < schedule.size(); ++b)
        for (std::int64_t i = 0; i < ranks * schedule.block(b).count; ++i)
          ++touched[static_cast<std::size_t>(schedule.view(b)(i))];
      EXPECT_EQ(touched, std::vector<int>(touched.size(), 1));
    }
}

TEST(Schedule, ViewMapsPartsOfABlockIntoThePartsOfTheBuffer) {
  const Schedule schedule =
      make_schedule({0}, {.kind = CollectiveKind::all_gather, .ranks = 2, .count = {10}}, Algorithm::ring, {4});
  ASSERT_EQ(schedule.size(), 3);
  EXPECT_EQ(schedule.view(1)(0), 4);
  EXPECT_EQ(schedule.view(1)(5), 10 + 4 + 1);  // element 1 of part 1
  EXPECT_EQ(schedule.view(2)(2), 10 + 8);      // the tail has two elements of each part
}

TEST(Schedule, RangesOfAPlanStayInsideOnePart) {
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}) {
    const std::int64_t part = 7;
    const Plan plan = make_plan({1}, {.kind = kind, .ranks = 4, .count = {part}}, Algorithm::ring);
    for (const Step& step : plan.steps)
      if (const auto* send = std::get_if<Send>(&step)) {
        EXPECT_EQ(send->from.offset / part, (send->from.offset + send->from.count - 1) / part);
      }
  }
}

TEST(Schedule, BlocksKeepMessagesWithinAboutASegment) {
  constexpr std::int64_t segment = 1000;
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::double_tree, Algorithm::recursive_doubling})
    for (const int ranks : {2, 5, 8, 64}) {
      const Schedule schedule = make_schedule({1}, {.ranks = ranks, .count = {1 << 20}}, algorithm, {segment});
      for (const Step& step : schedule.full().steps)
        if (const auto* send = std::get_if<Send>(&step)) {
          EXPECT_EQ(send->from.count, segment);
        }
    }
}

TEST(Schedule, MessagesOfHalvingDoublingHaveASegmentInTheMean) {
  constexpr std::int64_t segment = 1024;
  for (const int ranks : {2, 4, 8, 64}) {
    const Schedule schedule =
        make_schedule({0}, {.ranks = ranks, .count = {1 << 20}}, Algorithm::halving_doubling, {segment});
    const Traffic sent = traffic(schedule.full(), 1);
    const double mean = static_cast<double>(sent.bytes.value) / static_cast<double>(sent.messages);
    EXPECT_NEAR(mean / segment, 1.1, 0.11) << ranks;
  }
}

TEST(Schedule, LastBlockHasAPlanOfItsOwn) {
  const Schedule schedule = make_schedule({0}, {.ranks = 2, .count = {25}}, Algorithm::ring, {5});
  ASSERT_EQ(schedule.size(), 3);
  EXPECT_EQ(&schedule.plan(0), &schedule.plan(1));
  EXPECT_EQ(&schedule.plan(2), &schedule.tail());
  EXPECT_EQ(schedule.block(2), (Block{20, 5}));
  EXPECT_EQ(schedule.view(2)(3), 23);
}

TEST(Schedule, EmptyBufferHasNoBlockAndABarrierOne) {
  EXPECT_EQ(make_schedule({0}, {.ranks = 2}, Algorithm::ring, {5}).size(), 0);
  const Schedule barrier = make_schedule({0}, {.kind = CollectiveKind::barrier, .ranks = 2}, Algorithm::ring, {5});
  EXPECT_EQ(barrier.size(), 1);
  EXPECT_EQ(barrier.plan(0).steps.size(), 2u);
}

TEST(Schedule, UnlimitedSegmentMeansOneBlock) {
  constexpr Count unlimited{std::numeric_limits<std::int64_t>::max()};
  for (const Algorithm algorithm : all_algorithms)
    EXPECT_EQ(make_schedule({0}, {.ranks = 8, .count = {1 << 30}}, algorithm, unlimited).size(), 1);
}

TEST(Schedule, RefusesWhatCannotWork) {
  const auto message = [](Rank me, const CollectiveDescription& d, Count segment = {1}) -> std::string {
    try {
      make_schedule(me, d, Algorithm::ring, segment);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.message();
    }
    return "accepted";
  };
  EXPECT_EQ(message({2}, {.ranks = 2}), "the rank is 2; it must lie between 0 and 1");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::broadcast, .ranks = 2, .root = {-1}}),
            "the root is -1; it must lie between 0 and 1");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::reduce, .ranks = 2, .root = {2}}),
            "the root is 2; it must lie between 0 and 1");
  EXPECT_EQ(message({0}, {.ranks = 0}), "the number of ranks is 0; it must be at least 1");
  EXPECT_EQ(message({0}, {.count = {-1}}), "the count is -1; it must not be negative");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::barrier, .count = {1}}), "the count is 1; a barrier has no elements");
  EXPECT_EQ(message({0}, {}, {0}), "the segment has 0 elements; give at least 1");
  EXPECT_EQ(message({0}, {.own = {.leaves = -1}}), "the number of leaves is -1; it must not be negative");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::all_gather, .own = {.leaves = 2}}),
            "a rank brings one leaf to an all_gather or to shared memory, not 2");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::all_to_all, .own = {.in_place = true}}),
            "an all_to_all cannot be done in place");
}

TEST(Schedule, RefusesAStagingAreaWithoutRoomForAnElementOfEachPart) {
  const CollectiveDescription d{.kind = CollectiveKind::all_to_all, .ranks = 3, .count = {1}};
  EXPECT_THROW((void)make_schedule({0}, d, Algorithm::shared_memory, {1}, {2}), Error);
  EXPECT_EQ(make_schedule({0}, d, Algorithm::shared_memory, {1}, {3}).size(), 1);
}

}  // namespace
}  // namespace lockstep::collectives
