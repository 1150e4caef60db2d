// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/comm-bench/tune.hpp"

namespace lockstep::comm_bench {
namespace {

using collectives::Algorithm;
using collectives::Choice;
using collectives::SelectionTable;
using collectives::TableEntry;

constexpr collectives::ShapeSummary shape{1, 4, 4, 4};
const Choice ring{Algorithm::ring};
const Choice tree{Algorithm::double_tree};

TEST(Settings, OfABufferThatIsOneBlockAreOne) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::double_tree, Algorithm::recursive_doubling}) {
    EXPECT_EQ(settings_of(CollectiveKind::all_reduce, {algorithm}, shape, {4096}), std::vector<Choice>{{algorithm}});
  }
  EXPECT_EQ(settings_of(CollectiveKind::barrier, {Algorithm::ring}, shape, {0}), std::vector<Choice>{ring});
}

TEST(Settings, OfALargeBufferAllRunDifferently) {
  const auto settings = settings_of(CollectiveKind::all_reduce, {Algorithm::ring}, shape, {64 << 20});
  EXPECT_EQ(settings.size(), 4U * 3U);
  EXPECT_EQ(settings.front(), ring) << "the usual one";
  for (const Choice& choice : settings) EXPECT_EQ(std::count(settings.begin(), settings.end(), choice), 1);
}

TEST(Settings, BeyondTheNumberOfBlocksAreLeftOut) {
  // With 4 ranks a block is 4 segments, so there are two blocks of 32 KiB segments, and one of any longer segments.
  const auto settings = settings_of(CollectiveKind::all_reduce, {Algorithm::ring}, shape, {200 << 10});
  EXPECT_EQ(settings, (std::vector<Choice>{ring, {Algorithm::ring, {32 << 10}, 2}}));
}

TEST(Settings, OfSharedMemoryAreOne) {
  const auto settings = settings_of(CollectiveKind::all_reduce, {Algorithm::shared_memory}, shape, {64 << 20});
  EXPECT_EQ(settings, std::vector<Choice>{with_useful_blocks({Algorithm::shared_memory}, shape)});
}

TEST(Fastest, AreSortedAndFew) {
  const std::vector<Timed> timed = {{ring, 3}, {tree, 1}, {{Algorithm::halving_doubling}, 1.4}, {ring, 1.6}};
  const auto two = fastest(timed, 2, 10);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].choice, tree);
  EXPECT_EQ(two[1].seconds, 1.4);
  EXPECT_EQ(fastest(timed, 10, 1.5).size(), 2U);
  EXPECT_TRUE(fastest({}, 10, 1.5).empty());
}

TEST(Best, IsTheFastestUnlessThePreferredIsAsGood) {
  const std::vector<Timed> timed = {{ring, 1.01}, {tree, 1}, {{Algorithm::halving_doubling}, 1.03}};
  EXPECT_EQ(best_of(timed, ring), ring);
  EXPECT_EQ(best_of(timed, {Algorithm::halving_doubling}), tree);
  EXPECT_EQ(best_of(timed, {Algorithm::recursive_doubling}), tree);
}

TEST(Entries, CoverEverySizeAndMeetHalfWay) {
  const Finding findings[] = {{{4}, tree}, {{16}, tree}, {{64}, ring}, {{1024}, tree}};
  const auto entries = entries_of(CollectiveKind::all_reduce, shape, findings);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0], (TableEntry{CollectiveKind::all_reduce, shape, {0}, {32}, tree}));
  EXPECT_EQ(entries[1], (TableEntry{CollectiveKind::all_reduce, shape, {32}, {256}, ring}));
  EXPECT_EQ(entries[2], (TableEntry{CollectiveKind::all_reduce, shape, {256}, TableEntry::no_end, tree}));
  SelectionTable table;
  for (const TableEntry& entry : entries) table.add(entry);
  for (const std::int64_t bytes : {0, 31, 32, 255, 256, 1 << 30}) {
    EXPECT_NE(table.find(CollectiveKind::all_reduce, shape, {bytes}), nullptr) << bytes;
  }
}

TEST(Entries, OfOneSizeAreOne) {
  const Finding findings[] = {{{0}, ring}};
  const auto entries = entries_of(CollectiveKind::barrier, shape, findings);
  EXPECT_EQ(entries, (std::vector<TableEntry>{{CollectiveKind::barrier, shape, {0}, TableEntry::no_end, ring}}));
}

}  // namespace
}  // namespace lockstep::comm_bench
