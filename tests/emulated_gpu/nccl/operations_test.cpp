// SPDX-License-Identifier: Apache-2.0
// Tests every operation of NCCL with every type, in place and out of place, on several numbers of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "emulated_gpu/nccl/ranks.hpp"

namespace emulated_gpu::nccl_test::operations {
namespace {

constexpr std::size_t count = 137;

/// Returns the value of rank `rank` at index i: one or two, so that products of eight are exact in all types that
/// support them.
std::int64_t brought(int rank, std::size_t i) { return 1 + (static_cast<std::int64_t>(i) + rank) % 2; }

std::int64_t reduced(int ranks, std::size_t i, ncclRedOp_t op) {
  std::int64_t result = brought(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t value = brought(rank, i);
    if (op == ncclProd) result *= value;
    if (op == ncclSum) result += value;
    if (op == ncclMax) result = std::max(result, value);
    if (op == ncclMin) result = std::min(result, value);
  }
  return result;
}

/// Runs the operations of one rank with one type.
template <typename T>
class Operations {
 public:
  explicit Operations(const Rank& rank) : rank_(rank), ranks_(static_cast<std::size_t>(rank.ranks)) {}

  void run() {
    for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin}) all_reduce(op);
    average();
    reduce();
    reduce_scatter();
    broadcast();
    all_gather();
    messages();
  }

 private:
  static constexpr ncclDataType_t type = type_of<T>();

  [[nodiscard]] std::vector<T> own(std::size_t n) const { return of(rank_.rank, n); }
  [[nodiscard]] static std::vector<T> of(int rank, std::size_t n, std::size_t first = 0) {
    std::vector<T> values;
    for (std::size_t i = first; i < first + n; ++i) values.push_back(from_integer<T>(brought(rank, i)));
    return values;
  }
  [[nodiscard]] std::vector<T> sum(std::size_t n, ncclRedOp_t op, std::size_t first = 0) const {
    std::vector<T> values;
    for (std::size_t i = first; i < first + n; ++i) values.push_back(from_integer<T>(reduced(rank_.ranks, i, op)));
    return values;
  }
  /// Returns the concatenated values of all ranks.
  [[nodiscard]] std::vector<T> gathered() const {
    std::vector<T> values;
    for (int rank = 0; rank < rank_.ranks; ++rank)
      for (const T& value : of(rank, count)) values.push_back(value);
    return values;
  }
  void expect(const std::vector<T>& values, const std::vector<T>& expected, const char* what) const {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(to_double(values[i]), to_double(expected[i]))
          << what << " type " << type << " rank " << rank_.rank << " of " << ranks_ << " at " << i;
  }
  [[nodiscard]] std::size_t mine() const { return static_cast<std::size_t>(rank_.rank) * count; }
  [[nodiscard]] int last() const { return rank_.ranks - 1; }

  void all_reduce(ncclRedOp_t op) {
    DeviceValues<T> in(own(count));
    DeviceValues<T> out(count);
    check(ncclAllReduce(in.data(), out.data(), count, type, op, rank_.comm, rank_.stream));
    rank_.finish();
    expect(out.get(), sum(count, op), "all-reduce");
    check(ncclAllReduce(in.data(), in.data(), count, type, op, rank_.comm, rank_.stream));
    rank_.finish();
    expect(in.get(), sum(count, op), "all-reduce in place");
  }

  /// Averages the number of ranks, plus one on rank 0, because an average of integers truncates.
  void average() {
    DeviceValues<T> values(std::vector<T>(count, from_integer<T>(rank_.ranks + (rank_.rank == 0 ? 1 : 0))));
    check(ncclAllReduce(values.data(), values.data(), count, type, ncclAvg, rank_.comm, rank_.stream));
    rank_.finish();
    const double exact = (static_cast<double>(ranks_ * ranks_) + 1) / static_cast<double>(ranks_);
    for (const T& value : values.get()) {
      if constexpr (std::is_integral_v<T>) {
        ASSERT_EQ(to_double(value), std::floor(exact)) << "average, type " << type;
      } else {
        ASSERT_NEAR(to_double(value), exact, exact / 32) << "average, type " << type;
      }
    }
  }

  void reduce() {
    DeviceValues<T> in(own(count));
    DeviceValues<T> out(count);
    const bool is_root = rank_.rank == last();
    check(
        ncclReduce(in.data(), is_root ? out.data() : nullptr, count, type, ncclSum, last(), rank_.comm, rank_.stream));
    rank_.finish();
    if (is_root) expect(out.get(), sum(count, ncclSum), "reduce");
    check(ncclReduce(in.data(), in.data(), count, type, ncclMax, last(), rank_.comm, rank_.stream));
    rank_.finish();
    expect(in.get(), is_root ? sum(count, ncclMax) : own(count), "reduce in place");
  }

  void reduce_scatter() {
    DeviceValues<T> in(own(ranks_ * count));
    DeviceValues<T> out(count);
    check(ncclReduceScatter(in.data(), out.data(), count, type, ncclSum, rank_.comm, rank_.stream));
    rank_.finish();
    expect(out.get(), sum(count, ncclSum, mine()), "reduce-scatter");
    check(ncclReduceScatter(in.data(), in.data(mine()), count, type, ncclSum, rank_.comm, rank_.stream));
    rank_.finish();
    const std::vector<T> all = in.get();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(mine());
    expect({begin, begin + static_cast<std::ptrdiff_t>(count)}, sum(count, ncclSum, mine()), "reduce-scatter in place");
  }

  void broadcast() {
    DeviceValues<T> in(own(count));
    DeviceValues<T> out(count);
    check(ncclBroadcast(in.data(), out.data(), count, type, last(), rank_.comm, rank_.stream));
    rank_.finish();
    expect(out.get(), of(last(), count), "broadcast");
    check(ncclBcast(in.data(), count, type, 0, rank_.comm, rank_.stream));
    rank_.finish();
    expect(in.get(), of(0, count), "broadcast in place");
  }

  void all_gather() {
    DeviceValues<T> in(own(count));
    DeviceValues<T> out(ranks_ * count);
    check(ncclAllGather(in.data(), out.data(), count, type, rank_.comm, rank_.stream));
    rank_.finish();
    expect(out.get(), gathered(), "all-gather");
    DeviceValues<T> both(ranks_ * count);
    both.set(own(count), mine());
    check(ncclAllGather(both.data(mine()), both.data(), count, type, rank_.comm, rank_.stream));
    rank_.finish();
    expect(both.get(), gathered(), "all-gather in place");
  }

  /// Sends messages around the ring, and to itself.
  void messages() {
    DeviceValues<T> in(own(count));
    DeviceValues<T> out(count);
    DeviceValues<T> self(count);
    check(ncclGroupStart());
    check(ncclSend(in.data(), count, type, (rank_.rank + 1) % rank_.ranks, rank_.comm, rank_.stream));
    check(ncclSend(in.data(), count, type, rank_.rank, rank_.comm, rank_.stream));
    check(ncclRecv(out.data(), count, type, (rank_.rank + last()) % rank_.ranks, rank_.comm, rank_.stream));
    check(ncclRecv(self.data(), count, type, rank_.rank, rank_.comm, rank_.stream));
    check(ncclGroupEnd());
    rank_.finish();
    expect(out.get(), of((rank_.rank + last()) % rank_.ranks, count), "message");
    expect(self.get(), own(count), "message to itself");
  }

  Rank rank_;
  std::size_t ranks_;
};

void run_all_types(const Rank& rank) {
  Operations<std::int8_t>(rank).run();
  Operations<std::uint8_t>(rank).run();
  Operations<std::int32_t>(rank).run();
  Operations<std::uint32_t>(rank).run();
  Operations<std::int64_t>(rank).run();
  Operations<std::uint64_t>(rank).run();
  Operations<__half>(rank).run();
  Operations<float>(rank).run();
  Operations<double>(rank).run();
  Operations<__nv_bfloat16>(rank).run();
}

class EveryOperation : public testing::TestWithParam<int> {};

TEST_P(EveryOperation, HasItsResultsOnCommunicatorsThatDoNotBlock) { on_ranks(GetParam(), false, run_all_types); }

TEST_P(EveryOperation, HasItsResultsOnCommunicatorsThatBlock) {
  on_ranks(GetParam(), true, [](const Rank& rank) {
    Operations<float>(rank).run();
    Operations<std::int32_t>(rank).run();
  });
}

INSTANTIATE_TEST_SUITE_P(OnRanks, EveryOperation, testing::Values(1, 2, 3, 5, 8));

TEST(Operations, AreOfManyPieces) {
  constexpr std::size_t many = 300'001;
  on_ranks(3, false, [](const Rank& rank) {
    DeviceValues<std::int32_t> values(std::vector<std::int32_t>(many, 1 + rank.rank));
    check(ncclAllReduce(values.data(), values.data(), many, ncclInt32, ncclSum, rank.comm, rank.stream));
    rank.finish();
    EXPECT_EQ(values.get(), std::vector<std::int32_t>(many, 6));
  });
}

TEST(Operations, OfOneCommunicatorTakeTurnsThoughStreamsDiffer) {
  on_ranks(2, false, [](const Rank& rank) {
    Rank other = rank;
    check(cudaStreamCreateWithFlags(&other.stream, cudaStreamNonBlocking));
    DeviceValues<std::int32_t> a(std::vector<std::int32_t>(count, 1));
    DeviceValues<std::int32_t> b(std::vector<std::int32_t>(count, 2));
    for (int turn = 0; turn < 3; ++turn) {
      check(ncclAllReduce(a.data(), a.data(), count, ncclInt32, ncclSum, rank.comm, rank.stream));
      check(settle(rank.comm));
      check(ncclAllReduce(b.data(), b.data(), count, ncclInt32, ncclSum, rank.comm, other.stream));
      check(settle(rank.comm));
    }
    other.finish();
    rank.finish();
    EXPECT_EQ(a.get(), std::vector<std::int32_t>(count, 8));
    EXPECT_EQ(b.get(), std::vector<std::int32_t>(count, 16));
    check(cudaStreamDestroy(other.stream));
  });
}

/// The group comes after the work of both streams, and both streams continue after the group.
TEST(Operations, OfAGroupComeBehindAllOfItsStreams) {
  on_ranks(2, true, [](const Rank& rank) {
    cudaStream_t second = nullptr;
    check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    DeviceValues<std::int32_t> a(count);
    DeviceValues<std::int32_t> b(count);
    for (int turn = 1; turn <= 8; ++turn) {  // connections exist from the second turn on, when everything is fast
      check(cudaMemsetAsync(a.data(), turn, count * sizeof(std::int32_t), rank.stream));
      check(cudaMemsetAsync(b.data(), 16 * rank.rank + turn, count * sizeof(std::int32_t), second));
      check(ncclGroupStart());
      check(ncclGroupStart());
      check(ncclAllReduce(a.data(), a.data(), count, ncclInt32, ncclMax, rank.comm, rank.stream));
      check(ncclGroupEnd());
      check(ncclBroadcast(b.data(), b.data(), count, ncclInt32, 1, rank.comm, second));
      check(ncclGroupEnd());
      check(cudaStreamSynchronize(second));
      EXPECT_EQ(b.get(), std::vector<std::int32_t>(count, (16 + turn) * 0x01010101)) << turn;
      check(cudaStreamSynchronize(rank.stream));
      EXPECT_EQ(a.get(), std::vector<std::int32_t>(count, turn * 0x01010101)) << turn;
    }
    check(cudaStreamDestroy(second));
  });
}

TEST(Operations, InAGraphAreDoneAtEachLaunch) {
  on_ranks(3, false, [](const Rank& rank) {
    DeviceValues<std::int32_t> values(std::vector<std::int32_t>(count, 1));
    check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    check(ncclAllReduce(values.data(), values.data(), count, ncclInt32, ncclSum, rank.comm, rank.stream));
    check(settle(rank.comm));
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(rank.stream, &graph));
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0));
    for (int launch = 0; launch < 3; ++launch) check(cudaGraphLaunch(executable, rank.stream));
    check(ncclAllReduce(values.data(), values.data(), count, ncclInt32, ncclSum, rank.comm, rank.stream));
    rank.finish();
    EXPECT_EQ(values.get(), std::vector<std::int32_t>(count, 81));
    check(cudaGraphExecDestroy(executable));
    check(cudaGraphDestroy(graph));
  });
}

TEST(Operations, InAGraphKeepTheirCommunicatorUntilItIsDestroyed) {
  on_ranks(2, false, [](Rank& rank) {
    DeviceValues<std::int32_t> values(std::vector<std::int32_t>(count, 1));
    check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    check(ncclAllReduce(values.data(), values.data(), count, ncclInt32, ncclSum, rank.comm, rank.stream));
    check(settle(rank.comm));
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(rank.stream, &graph));
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0));
    check(cudaGraphDestroy(graph));
    check(ncclCommFinalize(rank.comm));
    EXPECT_TRUE(stays([&] { return state_of(rank.comm) == ncclInProgress; }));
    check(cudaGraphExecDestroy(executable));
    EXPECT_EQ(settle(rank.comm), ncclSuccess);
    check(ncclCommDestroy(std::exchange(rank.comm, nullptr)));
  });
}

/// One thread has the communicators of four GPUs, on null streams.
TEST(Operations, OfSeveralGpusAreOneThreadsGroup) {
  constexpr int gpus = 4;
  ncclComm_t comms[gpus] = {};
  check(ncclCommInitAll(comms, gpus, nullptr));
  std::vector<std::unique_ptr<DeviceValues<float>>> values;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    check(cudaSetDevice(gpu));
    values.push_back(std::make_unique<DeviceValues<float>>(std::vector<float>(count, static_cast<float>(gpu))));
  }
  check(cudaSetDevice(1));
  check(ncclGroupStart());
  for (int gpu = 0; gpu < gpus; ++gpu) {
    float* data = values[static_cast<std::size_t>(gpu)]->data();
    check(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comms[gpu], nullptr));
  }
  check(ncclGroupEnd());
  int selected = -1;
  check(cudaGetDevice(&selected));
  EXPECT_EQ(selected, 1);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    check(cudaSetDevice(gpu));
    check(cudaStreamSynchronize(nullptr));
    EXPECT_EQ(values[static_cast<std::size_t>(gpu)]->get(), std::vector<float>(count, 6));
    int device = -1;
    check(ncclCommCuDevice(comms[gpu], &device));
    EXPECT_EQ(device, gpu);
  }
  for (ncclComm_t comm : comms) check(ncclCommDestroy(comm));
  check(cudaSetDevice(0));
}

}  // namespace
}  // namespace emulated_gpu::nccl_test::operations
