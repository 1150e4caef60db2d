// SPDX-License-Identifier: Apache-2.0
// Tests communicators that are made from others: by color, and from the remaining ranks after a rank has failed.
#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "emulated_gpu/nccl/ranks.hpp"

namespace emulated_gpu::nccl_test::survivors {
namespace {

constexpr std::size_t count = 64;

ncclResult_t sum_up(const Rank& rank, const DeviceValues<float>& values) {
  return ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream);
}

TEST(Splitting, GivesNoHandleBeforeItIsDone) {
  std::atomic<bool> may_come = false;
  on_ranks(2, false, [&](const Rank& rank) {
    ncclComm_t part = nullptr;
    if (rank.rank == 1) wait_until([&] { return may_come.load(); });
    check(ncclCommSplit(rank.comm, 0, rank.rank, &part, nullptr));
    if (rank.rank == 0) {
      EXPECT_TRUE(stays([&] { return part == nullptr && state_of(rank.comm) == ncclInProgress; }));
      may_come = true;
    }
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    ASSERT_NE(part, nullptr);
    check(ncclCommDestroy(part));
  });
}

TEST(Splitting, IsEndedByAnAbortOfTheParent) {
  on_ranks(2, false, [](Rank& rank) {
    ncclComm_t part = nullptr;
    if (rank.rank == 0) check(ncclCommSplit(rank.comm, 0, 0, &part, nullptr));
    check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
    EXPECT_EQ(part, nullptr);
  });
}

TEST(Revoking, EndsWhatIsUnderWayAndLeavesARest) {
  on_ranks(3, false, [](Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    check(sum_up(rank, values));
    rank.finish();
    if (rank.rank == 2) {  // it no longer takes part
      check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
      return;
    }
    check(sum_up(rank, values));
    wait_until([&] { return state_of(rank.comm) != ncclInProgress; });  // NCCL may have noticed that rank 2 is gone
    EXPECT_EQ(ncclCommRevoke(rank.comm, 1), ncclInvalidArgument);
    check(ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT));
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    check(cudaStreamSynchronize(rank.stream));
    EXPECT_EQ(ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    int gone[] = {2};
    Rank rest = rank;
    check(ncclCommShrink(rank.comm, gone, 1, &rest.comm, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    check(ncclCommCount(rest.comm, &rest.ranks));
    EXPECT_EQ(rest.ranks, 2);

    DeviceValues<float> again(std::vector<float>(count, 1));
    check(sum_up(rest, again));
    rest.finish();
    EXPECT_EQ(again.get(), std::vector<float>(count, 2));
    EXPECT_EQ(sum_up(rank, again), ncclInvalidUsage);
    check(ncclCommDestroy(rest.comm));
    check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
  });
}

TEST(Revoking, EndsTheMakingOfConnections) {
  on_ranks(2, false, [](Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    if (rank.rank == 0) {
      EXPECT_EQ(sum_up(rank, values), ncclInProgress);
    }
    check(ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT));
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    check(ncclCommDestroy(std::exchange(rank.comm, nullptr)));
    EXPECT_EQ(values.get(), std::vector<float>(count, 1));
  });
}

TEST(Shrinking, WithoutARankThatFailedStopsWhatWaitsForIt) {
  on_ranks(3, false, [](Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    check(sum_up(rank, values));
    rank.finish();
    if (rank.rank == 1) {
      check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
      return;
    }
    check(sum_up(rank, values));
    wait_until([&] { return state_of(rank.comm) != ncclInProgress; });
    int gone[] = {1};
    Rank rest = rank;
    check(ncclCommShrink(rank.comm, gone, 1, &rest.comm, nullptr, NCCL_SHRINK_ABORT));
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    check(cudaStreamSynchronize(rank.stream));
    check(ncclCommUserRank(rest.comm, &rest.rank));
    EXPECT_EQ(rest.rank, rank.rank / 2);
    check(ncclCommDestroy(rest.comm));
    check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
  });
}

}  // namespace
}  // namespace emulated_gpu::nccl_test::survivors
