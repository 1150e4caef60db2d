// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "platform/machine/placement.hpp"
#include "platform/machines.hpp"

namespace lockstep {
namespace {

using testing_machines::two_packages_four_gpus;  // 8 cores; PUs n and n + 8 are core n

RankUse use(int rank, const std::string& pus, int threads = 1, bool spins = false) {
  return {.rank = rank, .pus = CpuSet::parse(pus), .threads = threads, .spins = spins};
}

std::vector<std::string> crowding(const std::vector<RankUse>& ranks) {
  return crowding_warnings(two_packages_four_gpus(), ranks);
}

TEST(CrowdingWarnings, NoneWhereEachThreadHasAProcessor) {
  EXPECT_TRUE(crowding({use(0, "0-3", 4), use(1, "4-7", 4, true)}).empty());
  EXPECT_TRUE(crowding({use(0, "0-15", 8), use(1, "0-15", 8, true)}).empty());
}

TEST(CrowdingWarnings, BindingsThatOverlapInPart) {
  const auto warnings = crowding({use(4, "0-2"), use(5, "6-7"), use(6, "2-4")});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].substr(0, 58), "ranks 4,6 are bound to cores 0-2 and 2-4, which overlap: s");
}

TEST(CrowdingWarnings, HardwareThreadsOfOneCoreOverlap) {
  EXPECT_EQ(crowding({use(0, "0-2"), use(1, "10-12")}).size(), 1U);
}

TEST(CrowdingWarnings, FewerProcessorsThanThreads) {
  const auto warnings = crowding({use(0, "0-15", 8), use(1, "0-15", 9)});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0],
            "ranks 0-1 have 17 threads on 16 processors (0-15), which take turns; give each rank fewer threads");
  const auto alone = crowding({use(0, "3", 2), use(1, "4-7", 4)});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0], "rank 0 has 2 threads on 1 processor (3), which take turns; give each rank fewer threads");
}

TEST(CrowdingWarnings, MoreRanksThanProcessors) {
  const auto warnings = crowding({use(0, "0-1"), use(1, "0-1"), use(2, "0-1")});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0], "ranks 0-2 have 3 threads on 2 processors (0-1), which take turns; start fewer ranks there");
}

TEST(CrowdingWarnings, ThreadsThatSpin) {
  const auto warnings = crowding({use(0, "0-1", 2, true), use(1, "0-1", 2, true)});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("OpenMP's threads spin while they wait: set OMP_WAIT_POLICY=passive"), std::string::npos);
  EXPECT_EQ(crowding({use(0, "0-1", 2), use(1, "0-1", 2)})[0].find("OMP_WAIT_POLICY"), std::string::npos);
  EXPECT_EQ(crowding({use(0, "0", 1, true), use(1, "0", 1, true)})[0].find("OMP_WAIT_POLICY"), std::string::npos)
      << "a single thread waits for no other";
}

TEST(DistantGpuWarnings, NameTheRankAndBothPlaces) {
  RankUse near = use(0, "0-3");
  RankUse far = use(1, "0-3");
  near.near_gpu = CpuSet::parse("0-3,8-11");
  far.near_gpu = CpuSet::parse("4-7,12-15");
  const auto warnings = distant_gpu_warnings(std::vector<RankUse>{near, far, use(2, "0-3")});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].substr(0, 86),
            "rank 1 is bound to processors 0-3, far from its GPU, which is attached to 4-7,12-15: s");
}

}  // namespace
}  // namespace lockstep
