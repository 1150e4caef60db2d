// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

TEST(Schedule, BlocksCoverTheBufferExactly) {
  for (const std::int64_t total : {0, 1, 5, 6, 7, 12, 1009})
    for (const std::int64_t block : {1, 2, 6, 7, 5000}) {
      const Schedule blocks =
          make_schedule({0}, {.ranks = 2, .count = {total}}, Algorithm::recursive_doubling, {block});
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < blocks.size(); ++i) {
        EXPECT_EQ(blocks.block(i).offset, end);
        EXPECT_GT(blocks.block(i).count, 0);
        EXPECT_EQ(blocks.block(i).count, i + 1 < blocks.size() ? block : total - end);
        end += blocks.block(i).count;
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

/// The parts are much longer than a block, shorter, slightly longer than a multiple of it, or empty.
const std::vector<std::int64_t> odd_parts[] = {{0, 3, 1000, 17}, {0, 0, 0, 0},    {8, 8, 8, 8},    {1, 0, 0, 65},
                                               {7, 8, 9, 31},    {4096, 1, 2, 3}, {70, 71, 72, 73}};

TEST(Schedule, CoversPartsOfDifferentLengthsExactlyInFewStretches) {
  for (const bool gathers : {true, false})
    for (const auto& parts : odd_parts)
      for (int me = 0; me < 4; ++me) {
        const Schedule schedule =
            make_schedule({me},
                          {.kind = gathers ? CollectiveKind::all_gather_v : CollectiveKind::reduce_scatter_v,
                           .ranks = 4,
                           .count = {*std::max_element(parts.begin(), parts.end())},
                           .parts = parts},
                          Algorithm::ring, {8});
        EXPECT_LE(schedule.stretches().size(), 4U);
        const auto whole = [&](const BlockView& view, std::int64_t at) {
          return gathers ? view.output(me, at) : view.input(me, at);
        };
        const auto own = [&](const BlockView& view, std::int64_t at) {
          return gathers ? view.input(me, at) : view.output(me, at);
        };
        std::vector<int> touched(
            static_cast<std::size_t>(std::accumulate(parts.begin(), parts.end(), std::int64_t{0})));
        std::vector<int> touched_own(static_cast<std::size_t>(parts[static_cast<std::size_t>(me)]));
        for (std::int64_t b = 0; b < schedule.size(); ++b) {
          const Stretch& stretch = schedule.stretches()[schedule.stretch_of(b)];
          EXPECT_LE(stretch.part_count, 8);
          const BlockView view = schedule.view(b);
          for (std::size_t k = 0; k < parts.size(); ++k)
            for (std::int64_t i = 0; i < stretch.table.input.parts[k].step; ++i) {
              const auto rank = static_cast<std::int64_t>(k);
              ++touched.at(static_cast<std::size_t>(whole(view, rank * stretch.part_count + i)));
              if (rank == me) ++touched_own.at(static_cast<std::size_t>(own(view, i)));
            }
        }
        EXPECT_EQ(touched, std::vector<int>(touched.size(), 1));
        EXPECT_EQ(touched_own, std::vector<int>(touched_own.size(), 1));
      }
}

/// Returns the lengths of the messages that one rank sends to another, over all blocks.
std::vector<std::int64_t> sent_to(const Schedule& schedule, int peer) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < schedule.size(); ++b)
    for (const Step& step : schedule.plan(b).steps)
      if (const auto* send = std::get_if<Send>(&step); send != nullptr && send->peer == peer)
        lengths.push_back(send->from.count);
  return lengths;
}

Schedule of_pairs(int me, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received) {
  const std::int64_t longest =
      std::max(*std::max_element(sent.begin(), sent.end()), *std::max_element(received.begin(), received.end()));
  return make_schedule({me},
                       {.kind = CollectiveKind::all_to_all_v,
                        .ranks = static_cast<int>(sent.size()),
                        .count = {longest},
                        .parts = sent,
                        .received = received},
                       Algorithm::shared_memory, {8});
}

/// For any two different counts that two ranks assume for a transfer, at least one message differs.
TEST(Schedule, MessagesOfAnAllToAllVTellAnyTwoCountsApart) {
  std::vector<std::vector<std::int64_t>> seen;
  for (const std::int64_t count : {0, 1, 7, 8, 9, 15, 16, 17, 24, 511, 512, 513, 1000, 5000, 5001}) {
    const auto lengths = sent_to(of_pairs(0, {0, count}, {0, 3}), 1);
    ASSERT_FALSE(lengths.empty());
    EXPECT_LE(lengths.size(), 65U);
    EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), count);
    for (const auto& other : seen) {
      const auto both = static_cast<std::ptrdiff_t>(std::min(other.size(), lengths.size()));
      EXPECT_FALSE(std::equal(lengths.begin(), lengths.begin() + both, other.begin())) << count;
    }
    seen.push_back(lengths);
  }
}

TEST(Schedule, OfAnAllToAllVHasRanksWithDifferentNumbersOfBlocks) {
  EXPECT_EQ(of_pairs(0, {0, 0, 0}, {0, 0, 0}).size(), 1) << "empty messages";
  EXPECT_EQ(of_pairs(0, {0, 17, 0}, {0, 0, 0}).size(), 3);
  EXPECT_EQ(of_pairs(1, {0, 0, 0}, {17, 0, 0}).size(), 3);
  EXPECT_EQ(of_pairs(2, {0, 0, 0}, {0, 0, 0}).size(), 1);
  EXPECT_EQ(of_pairs(0, {0}, {0}).size(), 0);
  const Schedule schedule = of_pairs(0, {5, 17, 6}, {5, 0, 9});
  const BlockView last = schedule.view(2);
  EXPECT_EQ(last.input(0, schedule.stretches()[schedule.stretch_of(2)].part_count), 5 + 16) << "of part 1";
}

TEST(Schedule, BlocksKeepMessagesWithinAboutASegment) {
  constexpr std::int64_t segment = 1000;
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::double_tree, Algorithm::recursive_doubling})
    for (const int ranks : {2, 5, 8, 64}) {
      const Schedule schedule = make_schedule({1}, {.ranks = ranks, .count = {1 << 20}}, algorithm, {segment});
      for (const Step& step : schedule.plan(0).steps)
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
    const Traffic sent = traffic(schedule.plan(0), 1);
    const double mean = static_cast<double>(sent.bytes.value) / static_cast<double>(sent.messages);
    EXPECT_NEAR(mean / segment, 1.1, 0.11) << ranks;
  }
}

TEST(Schedule, LastBlockHasAPlanOfItsOwn) {
  const Schedule schedule = make_schedule({0}, {.ranks = 2, .count = {25}}, Algorithm::ring, {5});
  ASSERT_EQ(schedule.size(), 3);
  EXPECT_EQ(&schedule.plan(0), &schedule.plan(1));
  EXPECT_NE(&schedule.plan(1), &schedule.plan(2));
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
  for (const Algorithm algorithm : message_algorithms)
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
            "a rank brings one leaf to all_gather or to shared memory, not 2");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::all_to_all, .own = {.in_place = true}}),
            "an all_to_all cannot be done in place");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::all_gather_v, .ranks = 2, .count = {3}, .parts = {3}}),
            "there are counts of 1 parts for 2 ranks");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::reduce_scatter_v, .ranks = 2, .count = {3}, .parts = {3, 4}}),
            "a part has 4 elements, the longest 3");
  EXPECT_EQ(message({0}, {.kind = CollectiveKind::all_to_all_v, .ranks = 2, .count = {3}, .parts = {3, 1}}),
            "there are counts of 0 parts for 2 ranks");
}

TEST(Schedule, RefusesAStagingAreaWithoutRoomForAnElementOfEachPart) {
  const CollectiveDescription d{.kind = CollectiveKind::all_to_all, .ranks = 3, .count = {1}};
  EXPECT_THROW((void)make_schedule({0}, d, Algorithm::shared_memory, {1}, {2}), Error);
  EXPECT_EQ(make_schedule({0}, d, Algorithm::shared_memory, {1}, {3}).size(), 1);
}

}  // namespace
}  // namespace lockstep::collectives
