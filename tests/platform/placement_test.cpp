// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/placement.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <set>

#include "platform/machines.hpp"

namespace lockstep {
namespace {

using testing_machines::two_packages_four_gpus;

std::vector<CpuSet> sets(const std::vector<std::string>& texts) {
  std::vector<CpuSet> sets;
  for (const std::string& text : texts) sets.push_back(CpuSet::parse(text));
  return sets;
}

/// Returns the assignment for ranks that all see the same GPUs.
std::vector<std::optional<int>> assigned(const std::vector<Gpu>& gpus, const std::vector<std::string>& bound) {
  std::vector<GpuChoices> ranks;
  for (const CpuSet& set : sets(bound)) ranks.push_back({gpus, set});
  return assign_gpus(ranks);
}

/// Formats the assignment as digits, with "-" for none.
std::string text_of(const std::vector<std::optional<int>>& gpus) {
  std::string text;
  for (const auto& gpu : gpus) text += gpu ? std::to_string(*gpu) : "-";
  return text;
}

std::string assignment(const std::vector<Gpu>& gpus, const std::vector<std::string>& bound) {
  return text_of(assigned(gpus, bound));
}

std::string warning_of(const std::vector<std::string>& bound) {
  std::vector<int> ranks(bound.size());
  std::iota(ranks.begin(), ranks.end(), 10);
  return binding_warning(two_packages_four_gpus(), ranks, sets(bound)).value_or("");
}

const std::string package0 = "0-3,8-11";
const std::string package1 = "4-7,12-15";
const std::string everything = "0-15";

TEST(AssignGpus, NoneVisible) { EXPECT_EQ(assignment({}, {everything, everything}), "--"); }

TEST(AssignGpus, OneVisibleServesEveryRank) {
  EXPECT_EQ(assignment({two_packages_four_gpus().gpus[3]}, {everything, package0}), "00");
}

TEST(AssignGpus, UnboundRanksTakeTheirOwnIndex) {
  EXPECT_EQ(assignment(two_packages_four_gpus().gpus, {everything, everything, everything, everything}), "0123");
}

TEST(AssignGpus, MoreRanksThanGpusGoRound) {
  EXPECT_EQ(assignment(two_packages_four_gpus().gpus, std::vector<std::string>(6, everything)), "012301");
}

TEST(AssignGpus, BoundRanksTakeAGpuOfTheirPackage) {
  const auto gpus = two_packages_four_gpus().gpus;
  EXPECT_EQ(assignment(gpus, {package1, package0}), "20");
  EXPECT_EQ(assignment(gpus, {package0, package1, package0, package1}), "0213");
}

TEST(AssignGpus, WhoFindsNoneNearTakesWhatIsLeft) {
  EXPECT_EQ(assignment(two_packages_four_gpus().gpus, {package0, package0, package0}), "012");
}

TEST(AssignGpus, ABoundRankGoesBeforeOneThatCanGoAnywhere) {
  EXPECT_EQ(assignment(two_packages_four_gpus().gpus, {everything, "0", "1"}), "201");
}

/// Returns the assignment for unbound ranks, each of which sees the GPUs of these digits.
std::string assignment_of(const std::vector<std::string>& seen) {
  const auto gpus = two_packages_four_gpus().gpus;
  std::vector<GpuChoices> ranks;
  for (const std::string& digits : seen) {
    ranks.push_back({.bound = CpuSet::parse(everything)});
    for (const char digit : digits) ranks.back().visible.push_back(gpus[static_cast<std::size_t>(digit - '0')]);
  }
  return text_of(assign_gpus(ranks));
}

TEST(AssignGpus, GoesByWhatEachRankSees) {
  EXPECT_EQ(assignment_of({"3", "1", "0"}), "000");
  EXPECT_EQ(assignment_of({"01", "32", "01", "", "32"}), "001-1");
  EXPECT_EQ(assignment_of({"0123", "1230", "2301"}), "000");
}

TEST(AssignGpus, ARankMakesWayForOneThatHasNoChoice) {
  EXPECT_EQ(assignment_of({"01", "0"}), "10");
  EXPECT_EQ(assignment_of({"01", "12", "0"}), "110");
  EXPECT_EQ(assignment_of({"01", "12", "0", "23"}), "1101") << "each makes way for the next";
  EXPECT_EQ(assignment_of({"0", "01", "0"}), "010") << "nobody can";
}

TEST(LocateGpus, GoesByThePlaceOnTheBus) {
  const auto known = two_packages_four_gpus().gpus;
  const std::vector<Gpu> seen = {{.model = "NVIDIA H200", .uuid = "GPU-1", .pci_bus_id = "0000:2A:00.0"},
                                 {.uuid = "GPU-2", .pci_bus_id = "0000:77:00.0"},
                                 {.uuid = "MIG-3", .pci_bus_id = "0000:98:00.0"},
                                 {.uuid = "MIG-4", .pci_bus_id = "0000:98:00.0"}};
  const auto located = locate_gpus(seen, known);
  ASSERT_EQ(located.size(), 4U);
  EXPECT_EQ(located[0].near_pus, known[1].near_pus);
  EXPECT_EQ(located[0].pci_bus_id, "0000:2a:00.0");
  EXPECT_EQ(located[0].model, "NVIDIA H200");
  EXPECT_EQ(located[0].vendor, "NVIDIA Corporation");
  EXPECT_TRUE(located[1].near_pus.empty());
  EXPECT_EQ(located[2].near_pus, known[2].near_pus);
  EXPECT_EQ(located[3].near_pus, known[2].near_pus);
  EXPECT_EQ(located[3].uuid, "MIG-4");
}

TEST(AssignGpus, NeverTwiceWhileThereAreEnough) {
  const auto gpus = two_packages_four_gpus().gpus;
  const std::vector<std::string> choices = {package0, package1, everything, "3", "4,12"};
  for (std::size_t code = 0; code < 625; ++code) {
    const auto given =
        assigned(gpus, {choices[code % 5], choices[code / 5 % 5], choices[code / 25 % 5], choices[code / 125]});
    EXPECT_EQ(std::set<std::optional<int>>(given.begin(), given.end()).size(), 4U) << code;
  }
}

TEST(Oversubscribed, CountsThreadsWithinEachSet) {
  EXPECT_FALSE(oversubscribed(sets({"0-1", "0-1"})));
  EXPECT_TRUE(oversubscribed(sets({"0-1", "0-1"}), 2));
  EXPECT_TRUE(oversubscribed(sets({"0-1", "0-1", "0-1"})));
  EXPECT_TRUE(oversubscribed(sets({"0", "0", "1-7"})));
  EXPECT_TRUE(oversubscribed(sets({"0", "1", "0-1"})));
  EXPECT_FALSE(oversubscribed(sets({"0", "1", "0-2"})));
  EXPECT_TRUE(oversubscribed(sets({"0"}), 2));
  EXPECT_FALSE(oversubscribed(sets({"0-3"}), 4));
}

/// Returns the caches of ranks that are bound to a core each, one after the other.
std::vector<CpuSet> last_level_caches(int ranks, int cores_of_each) {
  std::vector<CpuSet> caches;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> pus;
    for (int core = 0; core < cores_of_each; ++core) pus.push_back(rank / cores_of_each * cores_of_each + core);
    caches.emplace_back(std::move(pus));
  }
  return caches;
}

TEST(RanksPerCache, AreThoseOfALastLevelCacheOrBalanced) {
  EXPECT_EQ(ranks_per_cache(last_level_caches(least_ranks_by_cache - 1, 8)), 0) << "too few";
  EXPECT_EQ(ranks_per_cache(last_level_caches(32, 8)), 8);
  EXPECT_EQ(ranks_per_cache(last_level_caches(32, 4)), 4);
  EXPECT_EQ(ranks_per_cache(last_level_caches(64, 4)), 4);
  EXPECT_EQ(ranks_per_cache(last_level_caches(64, 8)), 8);
  EXPECT_EQ(ranks_per_cache(last_level_caches(128, 8)), 8);
  EXPECT_EQ(ranks_per_cache(last_level_caches(128, 16)), 16);
  EXPECT_EQ(ranks_per_cache(last_level_caches(128, 64)), 16) << "a cache of a whole socket";
  EXPECT_EQ(ranks_per_cache(last_level_caches(128, 2)), 16) << "two neighbors are too few";
  EXPECT_EQ(ranks_per_cache(last_level_caches(96, 12)), 16) << "four of the twelve that share a cache are too few";
  EXPECT_EQ(ranks_per_cache(last_level_caches(96, 8)), 8);
  EXPECT_EQ(ranks_per_cache(last_level_caches(100, 8)), 4) << "it divides the ranks";
  EXPECT_EQ(ranks_per_cache(last_level_caches(127, 8)), 8) << "the last cache has fewer";
  EXPECT_EQ(ranks_per_cache(std::vector<CpuSet>(128)), 16) << "they are not bound";
  std::vector<CpuSet> round_robin;
  for (int rank = 0; rank < 64; ++rank) round_robin.push_back(CpuSet({rank % 8}));
  EXPECT_EQ(ranks_per_cache(round_robin), 8) << "neighbors share no cache";
}

TEST(BindingWarning, TwoRanksOnOneCore) {
  const std::string warning = warning_of({"0", "0"});
  EXPECT_NE(warning.find("ranks 10 and 11 are bound to the same core 0 while 7 of 8 cores"), std::string::npos)
      << warning;
  EXPECT_NE(warning.find("--bind-to none"), std::string::npos);
  EXPECT_NE(warning.find("--map-by"), std::string::npos);
}

TEST(BindingWarning, TwoThreadsOfOneCoreAreOneCore) { EXPECT_NE(warning_of({"2", "10", "5"}), ""); }

TEST(BindingWarning, ThreeRanksOnTwoCores) {
  EXPECT_NE(warning_of({"0-1", "0-1", "0-1"}).find("ranks 10, 11 and 12 are bound to the same cores 0-1"),
            std::string::npos);
}

TEST(BindingWarning, NothingToSayWhereEachHasACore) {
  EXPECT_EQ(warning_of({"0", "1"}), "");
  EXPECT_EQ(warning_of({package0, package0}), "");
  EXPECT_EQ(warning_of({everything, everything, everything}), "");
}

TEST(BindingWarning, SharingIsNotNeedlessWhereNoCoreIsIdle) {
  EXPECT_EQ(warning_of({"0", "0", "1-7"}), "");
  EXPECT_EQ(warning_of(std::vector<std::string>(9, everything)), "");
}

}  // namespace
}  // namespace lockstep
