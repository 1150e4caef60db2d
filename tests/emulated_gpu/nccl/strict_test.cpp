// SPDX-License-Identifier: Apache-2.0
// Tests where NCCL is stricter than programs may expect: calls that it refuses, and the state after a refusal.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "emulated_gpu/device/violation.hpp"
#include "emulated_gpu/nccl/ranks.hpp"

namespace emulated_gpu::nccl_test::strict {
namespace {

constexpr std::size_t count = 64;

ncclResult_t sum_up(const Rank& rank, const DeviceValues<float>& values) {
  return ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream);
}

/// Returns a rank whose communicator waits for another rank that never comes.
Rank waiting_rank() {
  Rank rank{.rank = 0, .ranks = 2};
  ncclConfig_t config = configuration(false);
  check(ncclCommInitRankConfig(&rank.comm, rank.ranks, new_id(), rank.rank, &config));
  return rank;
}

TEST(BusyCommunicator, TakesNoCallAndIsLostByAnOperation) {
  const Rank rank = waiting_rank();
  const DeviceValues<float> values(std::vector<float>(count, 1));
  int size = 0;
  EXPECT_EQ(ncclCommCount(rank.comm, &size), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(rank.comm), ncclInvalidArgument);
  EXPECT_EQ(state_of(rank.comm), ncclInProgress);
  EXPECT_EQ(sum_up(rank, values), ncclInvalidArgument);
  EXPECT_EQ(state_of(rank.comm), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(rank.comm)).find("before its last call has succeeded"), std::string::npos);
  check(ncclCommAbort(rank.comm));
}

TEST(RefusedCall, EndsACommunicatorThatDoesNotBlock) {
  on_ranks(1, false, [](Rank& rank) {
    std::vector<float> host(count);
    const DeviceValues<float> values(std::vector<float>(count, 1));
    EXPECT_EQ(ncclAllReduce(host.data(), values.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclInvalidArgument);
    EXPECT_EQ(state_of(rank.comm), ncclInvalidArgument);
    EXPECT_EQ(sum_up(rank, values), ncclInvalidArgument);
    check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
  });
}

TEST(RefusedCall, LeavesACommunicatorThatBlocksAsItWas) {
  on_ranks(1, true, [](const Rank& rank) {
    std::vector<float> host(count);
    const DeviceValues<float> values(std::vector<float>(count, 1));
    EXPECT_EQ(ncclAllReduce(host.data(), values.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclInvalidArgument);
    EXPECT_EQ(sum_up(rank, values), ncclSuccess);
    rank.finish();
  });
}

TEST(Overlap, ThatIsNotInPlaceIsRefused) {
  on_ranks(2, true, [](const Rank& rank) {
    const DeviceValues<float> values(4 * count);
    const auto mine = static_cast<std::size_t>(rank.rank) * count;
    float* first = values.data();
    EXPECT_EQ(ncclAllReduce(first, first + 1, count, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAllGather(first + count - mine, first, count, ncclFloat32, rank.comm, rank.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclReduceScatter(first, first + count - mine, count, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAlltoAll(first, first, count, ncclFloat32, rank.comm, rank.stream), ncclInvalidArgument);
  });
}

TEST(Configuration, WithoutItsInitializerIsRefused) {
  ncclConfig_t empty{};
  ncclConfig_t odd = configuration(true);
  odd.blocking = 2;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &empty), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &odd), ncclInvalidArgument);
}

TEST(Group, OfCommunicatorsThatBlockAndThatDoNotIsRefused) {
  on_ranks(1, true, [](const Rank& blocking) {
    on_ranks(1, false, [&](const Rank& other) {
      const DeviceValues<float> values(std::vector<float>(count, 1));
      check(ncclGroupStart());
      check(sum_up(blocking, values));
      check(sum_up(other, values));
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    });
  });
}

TEST(Group, HasNoUseForTheCommunicatorThatItMakes) {
  ncclComm_t comm = nullptr;
  const DeviceValues<float> values(std::vector<float>(count, 1));
  check(ncclGroupStart());
  check(ncclCommInitRank(&comm, 1, new_id(), 0));
  EXPECT_EQ(sum_up({.comm = comm}, values), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
}

TEST(Group, SaysWhyACommunicatorWasNotMade) {
  const int devices[] = {0, 1, 0};
  ncclComm_t comms[3] = {};
  EXPECT_EQ(ncclCommInitAll(comms, 3, devices), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU detected"), std::string::npos);
  for (ncclComm_t comm : comms) EXPECT_EQ(comm, nullptr);
}

TEST(Finalizing, IsDoneOnce) {
  on_ranks(2, true, [](Rank& rank) {
    check(ncclCommFinalize(rank.comm));
    EXPECT_EQ(ncclCommFinalize(rank.comm), ncclInvalidArgument);
    check(ncclCommDestroy(std::exchange(rank.comm, nullptr)));
  });
}

using ViolationDeathTest = testing::Test;

TEST_F(ViolationDeathTest, ACommunicatorIsUsedAfterItsEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        on_ranks(1, true, [](Rank& rank) {
          check(ncclCommDestroy(rank.comm));
          state_of(rank.comm);
        });
      },
      testing::ExitedWithCode(violation_status), "destroyed or aborted");
}

TEST_F(ViolationDeathTest, RegisteredMemoryIsFreed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        on_ranks(2, true, [](const Rank& rank) {
          void* memory = nullptr;
          check(ncclMemAlloc(&memory, count));
          ncclWindow_t window{};
          check(ncclCommWindowRegister(rank.comm, memory, count, &window, NCCL_WIN_COLL_SYMMETRIC));
          check(ncclMemFree(memory));
        });
      },
      testing::ExitedWithCode(violation_status), "registered as a window");
}

/// Captures a sum in place.
class GraphOfASum {
 public:
  GraphOfASum(const Rank& rank, void* memory) {
    check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    check(ncclAllReduce(memory, memory, count, ncclUint8, ncclSum, rank.comm, rank.stream));
    check(cudaStreamEndCapture(rank.stream, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
  }
  void destroy() const {
    check(cudaGraphDestroy(graph));
    check(cudaGraphExecDestroy(executable));
  }

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

/// NCCL has registered the memory for the graph.
TEST_F(ViolationDeathTest, MemoryIsFreedBeforeTheGraphThatSumsIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto free_before = [](cudaError_t (*destroy)(const GraphOfASum&)) {
    on_ranks(2, true, [&](const Rank& rank) {
      void* memory = nullptr;
      check(ncclMemAlloc(&memory, count));
      const GraphOfASum graph(rank, memory);
      check(destroy(graph));
      check(ncclMemFree(memory));
    });
  };
  const testing::ExitedWithCode violated(violation_status);
  EXPECT_EXIT(free_before([](const GraphOfASum& of) { return cudaGraphDestroy(of.graph); }), violated,
              "is freed before a graph for which NCCL has registered it");
  EXPECT_EXIT(free_before([](const GraphOfASum& of) { return cudaGraphExecDestroy(of.executable); }), violated,
              "is freed before a graph for which NCCL has registered it");
}

TEST_F(ViolationDeathTest, AWindowEndsBeforeTheGraphThatUsesIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        on_ranks(2, true, [](const Rank& rank) {
          void* memory = nullptr;
          check(ncclMemAlloc(&memory, count));
          ncclWindow_t window{};
          check(ncclCommWindowRegister(rank.comm, memory, count, &window, NCCL_WIN_COLL_SYMMETRIC));
          const GraphOfASum graph(rank, memory);
          check(ncclCommWindowDeregister(rank.comm, window));
        });
      },
      testing::ExitedWithCode(violation_status), "a window that a graph uses");
}

TEST(Graph, LeavesItsMemoryWhenItIsDestroyed) {
  on_ranks(2, true, [](const Rank& rank) {
    void* memory = nullptr;
    check(ncclMemAlloc(&memory, count));
    GraphOfASum(rank, memory).destroy();
    check(ncclMemFree(memory));
    rank.finish();
  });
}

TEST_F(ViolationDeathTest, WindowsOfRanksDiffer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        on_ranks(2, true, [](const Rank& rank) {
          void* memory = nullptr;
          check(ncclMemAlloc(&memory, 2 * count));
          ncclWindow_t window{};
          ncclCommWindowRegister(rank.comm, memory, rank.rank == 0 ? count : 2 * count, &window,
                                 NCCL_WIN_COLL_SYMMETRIC);
        });
      },
      testing::ExitedWithCode(violation_status), "64 bytes here, and 128 on another rank|128 bytes here, and 64");
}

TEST(Operator, OfOnesOwnMultipliesFirst) {
  on_ranks(2, true, [](const Rank& rank) {
    float factor = rank.rank == 0 ? 2.0F : 10.0F;
    ncclRedOp_t op{};
    check(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, rank.comm));
    factor = 0;  // the factor was read already
    const DeviceValues<float> values(std::vector<float>(count, 1));
    check(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, op, rank.comm, rank.stream));
    rank.finish();
    EXPECT_EQ(values.get(), std::vector<float>(count, 12));
    const DeviceValues<double> others(count);
    EXPECT_EQ(ncclAllReduce(others.data(), others.data(), count, ncclFloat64, op, rank.comm, rank.stream),
              ncclInvalidArgument);
    check(ncclRedOpDestroy(op, rank.comm));
    EXPECT_EQ(ncclRedOpDestroy(op, rank.comm), ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpDestroy(ncclSum, rank.comm), ncclInvalidArgument);
  });
}

TEST(Operator, WithAFactorOnTheDeviceReadsItWhenItRuns) {
  on_ranks(2, true, [](const Rank& rank) {
    DeviceValues<std::int64_t> factor(std::vector<std::int64_t>(1, 0));
    ncclRedOp_t op{};
    check(ncclRedOpCreatePreMulSum(&op, factor.data(), ncclInt64, ncclScalarDevice, rank.comm));
    constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
    factor.set({large});
    const DeviceValues<std::int64_t> values(std::vector<std::int64_t>(count, 1));
    check(ncclAllReduce(values.data(), values.data(), count, ncclInt64, op, rank.comm, rank.stream));
    check(ncclRedOpDestroy(op, rank.comm));
    rank.finish();
    EXPECT_EQ(values.get(), std::vector<std::int64_t>(count, 2 * large));
  });
}

/// Three ranks add up a third of each value, instead of the values, so the sum does not overflow.
TEST(Average, OfFloatingPointValuesDoesNotOverflow) {
  on_ranks(3, true, [](const Rank& rank) {
    constexpr float most = std::numeric_limits<float>::max();
    const DeviceValues<float> values(std::vector<float>(count, most / 2));
    check(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclAvg, rank.comm, rank.stream));
    rank.finish();
    for (const float value : values.get()) EXPECT_TRUE(std::isfinite(value));
  });
}

TEST(Extremes, AreOfTheNumbersWhereSomeAreNone) {
  on_ranks(2, true, [](const Rank& rank) {
    for (const ncclRedOp_t op : {ncclMin, ncclMax}) {
      for (int without = 0; without < 2; ++without) {
        const float own = rank.rank == without ? std::numeric_limits<float>::quiet_NaN() : 3.0F;
        const DeviceValues<float> values(std::vector<float>(count, own));
        check(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, op, rank.comm, rank.stream));
        rank.finish();
        EXPECT_EQ(values.get(), std::vector<float>(count, 3));
      }
    }
  });
}

TEST(GatherAndScatter, BringPartsToTheRootAndBack) {
  on_ranks(3, true, [](const Rank& rank) {
    constexpr int root = 1;
    const auto mine = static_cast<float>(rank.rank);
    const bool is_root = rank.rank == root;
    const DeviceValues<float> own(std::vector<float>(count, mine));
    const DeviceValues<float> all(std::vector<float>(3 * count, -1));
    check(ncclGather(own.data(), is_root ? all.data() : nullptr, count, ncclFloat32, root, rank.comm, rank.stream));
    rank.finish();
    const std::vector<float> gathered = all.get();
    for (std::size_t i = 0; i < 3 * count; ++i) ASSERT_EQ(gathered[i], is_root ? static_cast<float>(i / count) : -1.0F);
    const DeviceValues<float> part(std::vector<float>(count, -1));
    float* to = is_root ? all.data(root * count) : part.data();  // in place at the root
    check(ncclScatter(is_root ? all.data() : nullptr, to, count, ncclFloat32, root, rank.comm, rank.stream));
    rank.finish();
    if (is_root) {
      EXPECT_EQ(all.get(), gathered);
    } else {
      EXPECT_EQ(part.get(), std::vector<float>(count, mine));
    }
  });
}

TEST(AlltoAll, HandsEachRankItsPart) {
  on_ranks(3, true, [](const Rank& rank) {
    std::vector<float> own;
    for (std::size_t i = 0; i < 3 * count; ++i) own.push_back(static_cast<float>(10 * rank.rank) + float(i / count));
    const DeviceValues<float> in(own);
    const DeviceValues<float> out(3 * count);
    check(ncclAlltoAll(in.data(), out.data(), count, ncclFloat32, rank.comm, rank.stream));
    rank.finish();
    const std::vector<float> values = out.get();
    for (std::size_t i = 0; i < 3 * count; ++i)
      ASSERT_EQ(values[i], static_cast<float>(10 * (i / count)) + static_cast<float>(rank.rank));
  });
}

class Algorithms : public testing::TestWithParam<std::pair<const char*, bool>> {};

/// Tests whether a broadcast finds an algorithm.
TEST_P(Algorithms, AreThoseThatTheListLeaves) {
  setenv("NCCL_ALGO", GetParam().first, 1);
  on_ranks(2, true, [](const Rank& rank) {
    const DeviceValues<float> values(std::vector<float>(count, 1));
    const ncclResult_t result =
        ncclBroadcast(values.data(), values.data(), count, ncclFloat32, 0, rank.comm, rank.stream);
    EXPECT_EQ(result, GetParam().second ? ncclSuccess : ncclInvalidUsage);
    rank.finish();
  });
  unsetenv("NCCL_ALGO");
}

INSTANTIATE_TEST_SUITE_P(Lists, Algorithms,
                         testing::Values(std::pair{"^tree", true}, std::pair{"^ring", false},
                                         std::pair{"ring,tree", true}, std::pair{"tree;broadcast:ring", true},
                                         std::pair{"broadcast:tree", false}, std::pair{"allreduce:tree", true}));

}  // namespace
}  // namespace emulated_gpu::nccl_test::strict
