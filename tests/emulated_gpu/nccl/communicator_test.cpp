// SPDX-License-Identifier: Apache-2.0
// Tests what communicators promise while they are made, used and ended, and what they never promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "emulated_gpu/device/faults.hpp"
#include "emulated_gpu/nccl/ranks.hpp"

namespace emulated_gpu::nccl_test::communicators {
namespace {

constexpr std::size_t count = 64;

ncclResult_t all_reduce(const Rank& rank, const DeviceValues<float>& values) {
  return ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream);
}

void start(Rank& rank, const ncclUniqueId& id, bool blocking = false) {
  ncclConfig_t config = configuration(blocking);
  check(ncclCommInitRankConfig(&rank.comm, rank.ranks, id, rank.rank, &config));
}

/// Makes all ranks connect, as an all-reduce needs it.
void connect_all(const Rank& rank) {
  const DeviceValues<float> values(std::vector<float>(count, 1));
  check(all_reduce(rank, values));
  rank.finish();
}

void abort(Rank& rank) { check(ncclCommAbort(std::exchange(rank.comm, nullptr))); }

TEST(Making, IsInProgressUntilTheLastRankIsThere) {
  std::atomic<bool> may_come = false;
  const ncclUniqueId id = new_id();
  on_threads(2, [&](int number) {
    Rank rank{.rank = number, .ranks = 2};
    if (number == 1) wait_until([&] { return may_come.load(); });
    start(rank, id);
    if (number == 0) {
      EXPECT_TRUE(stays([&] { return state_of(rank.comm) == ncclInProgress; }));
      may_come = true;
    }
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    int size = 0;
    int own = -1;
    check(ncclCommCount(rank.comm, &size));
    check(ncclCommUserRank(rank.comm, &own));
    EXPECT_EQ(size, 2);
    EXPECT_EQ(own, number);
    check(ncclCommDestroy(rank.comm));
  });
}

TEST(Making, IsEndedByAnAbort) {
  Rank rank{.rank = 0, .ranks = 2};
  start(rank, new_id());
  abort(rank);
}

TEST(Making, RefusesTwoRanksOnOneGpuOnAllRanks) {
  const ncclUniqueId id = new_id();
  on_threads(3, [&](int number) {
    check(cudaSetDevice(number == 2 ? 0 : number));
    Rank rank{.rank = number, .ranks = 3};
    start(rank, id);
    EXPECT_EQ(settle(rank.comm), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(rank.comm))
                  .find("Duplicate GPU detected : rank 2 and rank 0 both on CUDA "
                        "device 1b000"),
              std::string::npos)
        << ncclGetLastError(rank.comm);
    abort(rank);
  });
}

TEST(Making, OfManyIdsIsAsOfOne) {
  std::array<ncclUniqueId, 2> ids{new_id(), new_id()};
  on_threads(3, [&](int number) {
    std::array<ncclUniqueId, 2> own = ids;
    ncclComm_t comm = nullptr;
    check(ncclCommInitRankScalable(&comm, 3, number, 2, own.data(), nullptr));
    int size = 0;
    check(ncclCommCount(comm, &size));
    EXPECT_EQ(size, 3);
    check(ncclCommDestroy(comm));
  });
}

TEST(Making, RefusesARankThatThereIsNot) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, new_id(), 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 0), ncclInvalidArgument);
}

/// Until both ranks request the connection, no work reaches the stream, so an event that is recorded before is recorded
/// too early.
TEST(Connections, AreMadeAfterTheCallHasReturned) {
  std::atomic<bool> may_come = false;
  on_ranks(2, false, [&](const Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    if (rank.rank == 1) wait_until([&] { return may_come.load(); });
    const ncclResult_t called = all_reduce(rank, values);
    if (rank.rank == 0) {
      EXPECT_EQ(called, ncclInProgress);
      EXPECT_TRUE(stays([&] { return state_of(rank.comm) == ncclInProgress; }));
      EXPECT_EQ(cudaStreamQuery(rank.stream), cudaSuccess);
      EXPECT_EQ(values.get(), std::vector<float>(count, 1));
      may_come = true;
    }
    rank.finish();
    EXPECT_EQ(values.get(), std::vector<float>(count, 2));
  });
}

TEST(Operation, WaitsOnTheGpuForARankThatIsMissing) {
  std::atomic<bool> may_come = false;
  on_ranks(2, false, [&](const Rank& rank) {
    connect_all(rank);
    const DeviceValues<float> values(std::vector<float>(count, 1));
    if (rank.rank == 1) wait_until([&] { return may_come.load(); });
    check(all_reduce(rank, values));
    if (rank.rank == 0) {
      EXPECT_EQ(settle(rank.comm), ncclSuccess);
      EXPECT_TRUE(stays([&] { return cudaStreamQuery(rank.stream) == cudaErrorNotReady; }));
      may_come = true;
    }
    rank.finish();
    EXPECT_EQ(values.get(), std::vector<float>(count, 2));
  });
}

TEST(Operation, ThatAnotherRankCallsDifferentlyNeverEnds) {
  on_ranks(2, false, [](Rank& rank) {
    connect_all(rank);
    const DeviceValues<float> values(std::vector<float>(count, 1));
    check(ncclAllReduce(values.data(), values.data(), count - static_cast<std::size_t>(rank.rank), ncclFloat32, ncclSum,
                        rank.comm, rank.stream));
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    EXPECT_TRUE(
        stays([&] { return cudaStreamQuery(rank.stream) == cudaErrorNotReady && state_of(rank.comm) == ncclSuccess; }));
    abort(rank);
    check(cudaStreamSynchronize(rank.stream));
  });
}

TEST(Abort, EndsAnOperationAndLeavesNoResult) {
  std::atomic<bool> is_over = false;
  on_ranks(2, false, [&](Rank& rank) {
    connect_all(rank);
    const DeviceValues<float> values(std::vector<float>(count, 1));
    if (rank.rank == 0) {
      check(all_reduce(rank, values));
      EXPECT_EQ(settle(rank.comm), ncclSuccess);
      EXPECT_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
    } else {
      wait_until([&] { return is_over.load(); });
    }
    abort(rank);
    check(cudaStreamSynchronize(rank.stream));
    is_over = true;
    const std::vector<float> after = values.get();
    EXPECT_EQ(after.front() == after.front(), rank.rank == 1) << "a result where there is none";
  });
}

TEST(Abort, EndsTheMakingOfConnections) {
  on_ranks(2, false, [](Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    if (rank.rank == 0) {
      EXPECT_EQ(all_reduce(rank, values), ncclInProgress);
    }
    abort(rank);
    EXPECT_EQ(values.get(), std::vector<float>(count, 1));
  });
}

TEST(Finalizing, IsInProgressUntilAllRanksDoIt) {
  std::atomic<bool> may_come = false;
  on_ranks(2, false, [&](Rank& rank) {
    if (rank.rank == 1) wait_until([&] { return may_come.load(); });
    check(ncclCommFinalize(rank.comm));
    if (rank.rank == 0) {
      EXPECT_TRUE(stays([&] { return state_of(rank.comm) == ncclInProgress; }));
      may_come = true;
    }
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    check(ncclCommDestroy(std::exchange(rank.comm, nullptr)));
  });
}

TEST(Destroying, WaitsForWhatIsUnderWay) {
  on_ranks(2, true, [](Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    check(all_reduce(rank, values));
    check(ncclCommDestroy(std::exchange(rank.comm, nullptr)));
    EXPECT_EQ(cudaStreamQuery(rank.stream), cudaSuccess);
    EXPECT_EQ(values.get(), std::vector<float>(count, 2));
  });
}

TEST(Splitting, MakesACommunicatorOfEachColor) {
  on_ranks(5, true, [](const Rank& rank) {
    Rank part = rank;
    const int color = rank.rank == 4 ? NCCL_SPLIT_NOCOLOR : rank.rank % 2;
    check(ncclCommSplit(rank.comm, color, -rank.rank, &part.comm, nullptr));
    if (rank.rank == 4) {
      EXPECT_EQ(part.comm, nullptr);
      return;
    }
    check(ncclCommUserRank(part.comm, &part.rank));
    check(ncclCommCount(part.comm, &part.ranks));
    EXPECT_EQ(part.ranks, 2);
    EXPECT_EQ(part.rank, rank.rank < 2 ? 1 : 0);
    const DeviceValues<float> values(std::vector<float>(count, static_cast<float>(rank.rank)));
    check(all_reduce(part, values));
    part.finish();
    EXPECT_EQ(values.get(), std::vector<float>(count, rank.rank % 2 == 0 ? 2.0F : 4.0F));
    check(ncclCommDestroy(part.comm));
  });
}

class Pointers : public testing::Test {
 protected:
  static ncclResult_t reduce(const Rank& rank, const void* in, void* out) {
    return ncclAllReduce(in, out, count, ncclFloat32, ncclSum, rank.comm, rank.stream);
  }
};

TEST_F(Pointers, OfTheHostAndOfOtherGpusAreRefused) {
  on_ranks(1, true, [](const Rank& rank) {
    std::vector<float> host(count);
    const DeviceValues<float> own(count);
    check(cudaSetDevice(1));
    const DeviceValues<float> foreign(count);
    check(cudaSetDevice(0));
    EXPECT_EQ(reduce(rank, host.data(), own.data()), ncclInvalidArgument);
    EXPECT_EQ(reduce(rank, own.data(), host.data()), ncclInvalidArgument);
    EXPECT_EQ(reduce(rank, nullptr, own.data()), ncclInvalidArgument);
    EXPECT_EQ(reduce(rank, foreign.data(), own.data()), ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(rank.comm)), "");
  });
}

TEST_F(Pointers, OfPinnedMemoryAreTaken) {
  on_ranks(2, true, [](const Rank& rank) {
    float* pinned = nullptr;
    check(cudaMallocHost(reinterpret_cast<void**>(&pinned), count * sizeof(float)));
    std::fill(pinned, pinned + count, 3.0F);
    check(reduce(rank, pinned, pinned));
    check(cudaStreamSynchronize(rank.stream));
    EXPECT_EQ(pinned[count - 1], 6);
    check(cudaFreeHost(pinned));
  });
}

TEST(Group, OfWhichOneCallIsRefusedDoesNothing) {
  on_ranks(1, true, [](const Rank& rank) {
    const DeviceValues<float> in(std::vector<float>(count, 1));
    const DeviceValues<float> out(std::vector<float>(count, 5));
    check(ncclGroupStart());
    check(ncclAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream));
    EXPECT_EQ(ncclBroadcast(in.data(), in.data(), count, ncclFloat32, 7, rank.comm, rank.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    check(cudaStreamSynchronize(rank.stream));
    EXPECT_EQ(out.get(), std::vector<float>(count, 5));
  });
}

TEST(Group, ThatNobodyHasBegunCannotBeEnded) { EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage); }

TEST(Memory, OfNcclIsADevicesAndCanBeRegistered) {
  on_ranks(2, true, [](const Rank& rank) {
    void* data = nullptr;
    check(ncclMemAlloc(&data, count * sizeof(float)));
    void* registration = nullptr;
    check(ncclCommRegister(rank.comm, data, count * sizeof(float), &registration));
    const std::vector<float> ones(count, 1);
    check(cudaMemcpy(data, ones.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    check(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(cudaStreamSynchronize(rank.stream));
    std::vector<float> after(count);
    check(cudaMemcpy(after.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost));
    EXPECT_EQ(after, std::vector<float>(count, 2));
    check(ncclCommDeregister(rank.comm, registration));
    check(ncclMemFree(data));
  });
}

TEST(InjectedFaults, MeetTheCallThatTheyName) {
  on_ranks(1, true, [](const Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    set_faults("ncclAllReduce:2:ncclSystemError,async:2:ncclRemoteError");
    EXPECT_EQ(all_reduce(rank, values), ncclSuccess);
    EXPECT_EQ(all_reduce(rank, values), ncclSystemError);
    EXPECT_EQ(all_reduce(rank, values), ncclSuccess);
    EXPECT_EQ(state_of(rank.comm), ncclSuccess);
    check(cudaStreamSynchronize(rank.stream));
    set_faults("");
  });
}

TEST(InjectedFaults, BringAnAsynchronousErrorThatStays) {
  on_ranks(1, false, [](Rank& rank) {
    set_faults("async:2:ncclRemoteError");
    EXPECT_EQ(state_of(rank.comm), ncclSuccess);
    EXPECT_EQ(state_of(rank.comm), ncclRemoteError);
    EXPECT_EQ(state_of(rank.comm), ncclRemoteError);
    const DeviceValues<float> values(std::vector<float>(count, 1));
    EXPECT_EQ(all_reduce(rank, values), ncclRemoteError);
    set_faults("");
    abort(rank);
  });
}

TEST(Version, IsTheHeaders) {
  int version = 0;
  check(ncclGetVersion(&version));
  EXPECT_EQ(version, NCCL_VERSION_CODE);
}

}  // namespace
}  // namespace emulated_gpu::nccl_test::communicators
