// SPDX-License-Identifier: Apache-2.0
// Tests NCCL on several GPUs, with a thread each.
#include <atomic>
#include <bit>
#include <memory>
#include <vector>

#include "emulated_gpu/semantics/graph.hpp"
#include "emulated_gpu/semantics/nccl.hpp"
#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class NcclRanks : public TwoGpus {};

constexpr std::size_t elements = 1000;

/// Returns a rank's input; no two elements of all ranks are the same.
std::vector<int> input_of(int rank) {
  std::vector<int> values;
  for (std::size_t i = 0; i < elements; ++i) values.push_back(10000 * rank + static_cast<int>(i));
  return values;
}

template <typename Function>
std::vector<int> of_all(const Function& function) {
  std::vector<int> values;
  for (std::size_t i = 0; i < elements; ++i) values.push_back(function(static_cast<int>(i)));
  return values;
}

/// A rank's resources. Memory is allocated before the rank has a communicator and freed afterwards. While a rank waits
/// for another on the GPU, a call in that other thread that may wait for the GPUs, such as cudaFree, could wait
/// forever.
class Rank {
 public:
  Rank(int ranks, const ncclUniqueId& id, int its_rank, Calls calls)
      : rank(its_rank),
        in(elements * static_cast<std::size_t>(ranks)),
        out(in.count()),
        communicator(ranks, id, rank, calls) {}

  void set(const std::vector<int>& values) const {
    check(cudaMemcpy(in.data(), values.data(), values.size() * sizeof(int), cudaMemcpyHostToDevice));
    check(cudaMemset(out.data(), 0, out.bytes()));
  }
  /// Copies in the legacy stream, which comes after the rank's stream.
  static std::vector<int> get(const int* from, std::size_t count = elements) {
    std::vector<int> values(count);
    check(cudaMemcpy(values.data(), from, count * sizeof(int), cudaMemcpyDeviceToHost));
    return values;
  }
  void complete(ncclResult_t result) const { communicator.complete(result); }
  void all_reduce(const int* from, int* to, ncclRedOp_t op) const {
    complete(ncclAllReduce(from, to, elements, ncclInt32, op, communicator, stream));
  }

  int rank;
  Array<int> in;
  Array<int> out;
  Stream stream;
  Communicator communicator;
};

/// Calls the function on every rank, once with each kind of communicator.
template <typename Function>
void with_ranks(const Function& function) {
  const int ranks = ranks_to_try();
  for (const Calls calls : {Calls::block, Calls::do_not_block}) {
    const ncclUniqueId id = new_id();
    on_ranks(ranks, [&](int rank) {
      Rank me(ranks, id, rank, calls);
      function(me, ranks);
      me.communicator.close();
    });
  }
}

// NCCL User Guide, Collective Operations: AllReduce, with each operator; In-place Operations: the same address
TEST_F(NcclRanks, ReduceToAll) {
  with_ranks([](const Rank& me, int ranks) {
    const auto expect = [&](ncclRedOp_t op, const std::vector<int>& expected) {
      me.set(input_of(me.rank));
      me.all_reduce(me.in.data(), me.out.data(), op);
      EXPECT_EQ(Rank::get(me.out.data()), expected) << op;
      me.all_reduce(me.in.data(), me.in.data(), op);
      EXPECT_EQ(Rank::get(me.in.data()), expected) << op << " in place";
    };
    const int sum_of_ranks = ranks * (ranks - 1) / 2;
    expect(ncclSum, of_all([&](int i) { return 10000 * sum_of_ranks + ranks * i; }));
    expect(ncclMin, of_all([](int i) { return i; }));
    expect(ncclMax, of_all([&](int i) { return 10000 * (ranks - 1) + i; }));
  });
}

// NCCL User Guide, Types, ncclRedOp_t: ncclProd, ncclAvg
TEST_F(NcclRanks, MultiplyAndAverage) {
  with_ranks([](const Rank& me, int ranks) {
    const auto of_all_ranks = [&](ncclRedOp_t op, float mine) {
      me.set(std::vector<int>(elements, std::bit_cast<int>(mine)));
      me.complete(ncclAllReduce(me.in.data(), me.out.data(), elements, ncclFloat32, op, me.communicator, me.stream));
      const std::vector<int> bits = Rank::get(me.out.data());
      EXPECT_EQ(bits, std::vector<int>(elements, bits[0]));
      return std::bit_cast<float>(bits[0]);
    };
    EXPECT_EQ(of_all_ranks(ncclProd, static_cast<float>(2 << me.rank)),
              static_cast<float>(1 << (ranks * (ranks + 1) / 2)));
    EXPECT_FLOAT_EQ(of_all_ranks(ncclAvg, 12), 12);  // by 1/3, which is not exact
  });
}

// NCCL User Guide, Collective Operations: Reduce and Broadcast, with each root
TEST_F(NcclRanks, ReduceToOneAndBroadcast) {
  with_ranks([](const Rank& me, int ranks) {
    int* in = me.in.data();
    int* out = me.out.data();
    for (int root = 0; root < ranks; ++root) {
      me.set(input_of(me.rank));
      me.complete(ncclReduce(in, out, elements, ncclInt32, ncclMax, root, me.communicator, me.stream));
      if (me.rank == root) {
        EXPECT_EQ(Rank::get(out), input_of(ranks - 1));
      }
      me.complete(ncclBroadcast(in, out, elements, ncclInt32, root, me.communicator, me.stream));
      EXPECT_EQ(Rank::get(out), input_of(root));
      me.complete(ncclBroadcast(in, in, elements, ncclInt32, root, me.communicator, me.stream));
      EXPECT_EQ(Rank::get(in), input_of(root)) << "in place";
    }
  });
}

std::vector<int> inputs_of_all(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int> one = input_of(rank);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// NCCL User Guide, Collective Operations: AllGather; In-place Operations: from the rank's place in the receive buffer
TEST_F(NcclRanks, Gather) {
  with_ranks([](const Rank& me, int ranks) {
    me.set(input_of(me.rank));
    int* out = me.out.data();
    me.complete(ncclAllGather(me.in.data(), out, elements, ncclInt32, me.communicator, me.stream));
    EXPECT_EQ(Rank::get(out, me.out.count()), inputs_of_all(ranks));
    me.set(input_of(me.rank));
    int* mine = out + elements * static_cast<std::size_t>(me.rank);
    check(cudaMemcpyAsync(mine, me.in.data(), elements * sizeof(int), cudaMemcpyDeviceToDevice, me.stream));
    me.complete(ncclAllGather(mine, out, elements, ncclInt32, me.communicator, me.stream));
    EXPECT_EQ(Rank::get(out, me.out.count()), inputs_of_all(ranks)) << "in place";
  });
}

// NCCL User Guide, Collective Operations: ReduceScatter; In-place Operations: to the rank's place in the send buffer
TEST_F(NcclRanks, ReduceAndScatter) {
  with_ranks([](const Rank& me, int ranks) {
    me.set(inputs_of_all(ranks));
    const std::vector<int> expected = of_all([&](int i) { return ranks * (10000 * me.rank + i); });
    const auto reduce_scatter_to = [&](int* to) {
      me.complete(ncclReduceScatter(me.in.data(), to, elements, ncclInt32, ncclSum, me.communicator, me.stream));
      EXPECT_EQ(Rank::get(to), expected);
    };
    reduce_scatter_to(me.out.data());
    reduce_scatter_to(me.in.data() + elements * static_cast<std::size_t>(me.rank));
  });
}

// NCCL User Guide, Point-to-point communication, All-to-all: sends and receives in one group do not wait for each other
TEST_F(NcclRanks, ExchangeInAGroup) {
  with_ranks([](const Rank& me, int ranks) {
    me.set(input_of(me.rank));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < ranks; ++peer) {
      ncclSend(me.in.data() + peer, 1, ncclInt32, peer, me.communicator, me.stream);
      ncclRecv(me.out.data() + peer, 1, ncclInt32, peer, me.communicator, me.stream);
    }
    me.complete(ncclGroupEnd());
    std::vector<int> expected;
    for (int peer = 0; peer < ranks; ++peer) expected.push_back(10000 * peer + me.rank);
    EXPECT_EQ(Rank::get(me.out.data(), expected.size()), expected);
  });
}

// NCCL User Guide, Creating more communicators: ncclCommSplit by color, in the order of the keys
TEST_F(NcclRanks, AreSplit) {
  with_ranks([](const Rank& me, int ranks) {
    const bool is_first = me.rank == 0;
    ncclComm_t handle = nullptr;
    me.complete(ncclCommSplit(me.communicator, is_first ? NCCL_SPLIT_NOCOLOR : 5, -me.rank, &handle, nullptr));
    EXPECT_EQ(handle == nullptr, is_first);
    if (is_first) return;
    Communicator part(handle);
    ASSERT_EQ(outcome(part), ncclSuccess);
    int its_ranks = 0;
    int its_rank = -1;
    check(ncclCommCount(part, &its_ranks));
    check(ncclCommUserRank(part, &its_rank));
    EXPECT_EQ(its_ranks, ranks - 1);
    EXPECT_EQ(its_rank, ranks - 1 - me.rank);
    me.set(input_of(me.rank));
    part.complete(ncclBroadcast(me.in.data(), me.in.data(), elements, ncclInt32, 0, part, me.stream));
    EXPECT_EQ(Rank::get(me.in.data()), input_of(ranks - 1));
    part.close();
  });
}

// NCCL User Guide, Group Calls, Management Of Multiple GPUs From One Thread; ncclCommInitAll
TEST_F(NcclRanks, AreDrivenByOneThread) {
  const int ranks = ranks_to_try();
  std::vector<ncclComm_t> communicators(static_cast<std::size_t>(ranks));
  ASSERT_EQ(ncclCommInitAll(communicators.data(), ranks, nullptr), ncclSuccess);
  std::vector<std::unique_ptr<Array<int>>> memory;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int rank = 0; rank < ranks; ++rank) {
    check(cudaSetDevice(rank));
    memory.push_back(std::make_unique<Array<int>>(input_of(rank)));
    streams.push_back(std::make_unique<Stream>());
  }
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
    int* data = memory[rank]->data();
    EXPECT_EQ(ncclAllReduce(data, data, elements, ncclInt32, ncclMax, communicators[rank], *streams[rank]),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
    check(cudaSetDevice(static_cast<int>(rank)));
    streams[rank]->synchronize();
    EXPECT_EQ(memory[rank]->values(), input_of(ranks - 1));
  }
  for (const ncclComm_t communicator : communicators) EXPECT_EQ(ncclCommDestroy(communicator), ncclSuccess);
}

/// A meeting that no rank leaves before all have come.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks) {}
  void come() {
    ++arrived_;
    EXPECT_TRUE(becomes_true([this] { return arrived_ >= ranks_; }));
  }

 private:
  int ranks_;
  std::atomic<int> arrived_ = 0;
};

// NCCL User Guide, Collective Operations: an operation ends only after every rank has called it
TEST_F(NcclRanks, WaitForEachOther) {
  const int ranks = ranks_to_try();
  const ncclUniqueId id = new_id();
  Meeting meeting(ranks);
  on_ranks(ranks, [&](int rank) {
    Rank me(ranks, id, rank, Calls::block);
    me.set(input_of(rank));
    const auto reduce = [&] { me.all_reduce(me.in.data(), me.in.data(), ncclMax); };
    reduce();  // makes the connections
    me.stream.synchronize();
    if (rank != 0) meeting.come();
    reduce();
    if (rank == 0) {
      EXPECT_TRUE(stays_busy(me.stream));
      meeting.come();
    }
    me.stream.synchronize();
    EXPECT_EQ(Rank::get(me.in.data()), input_of(ranks - 1));
    me.communicator.close();
  });
}

// NCCL User Guide, Error handling and communicator abort: ncclCommAbort ends operations that wait on the device
TEST_F(NcclRanks, AreAbortedWhileAnOperationWaits) {
  const int ranks = ranks_to_try();
  const ncclUniqueId id = new_id();
  Meeting meeting(ranks);
  on_ranks(ranks, [&](int rank) {
    Rank me(ranks, id, rank, Calls::do_not_block);
    const auto reduce = [&] { me.all_reduce(me.in.data(), me.in.data(), ncclMax); };
    reduce();
    me.stream.synchronize();
    if (rank == 0) {
      reduce();
      EXPECT_TRUE(stays_busy(me.stream));
    }
    meeting.come();
    EXPECT_EQ(me.communicator.abort(), ncclSuccess);
    EXPECT_TRUE(becomes_ready(me.stream));
  });
}

// NCCL User Guide, Using NCCL with CUDA Graphs: all ranks execute a captured operation in each launch
TEST_F(NcclRanks, AreCapturedAndReplayed) {
  with_ranks([](const Rank& me, int ranks) {
    const auto reduce = [&] { me.all_reduce(me.in.data(), me.out.data(), ncclSum); };
    reduce();
    me.stream.synchronize();
    const Graph graph(me.stream, reduce, cudaStreamCaptureModeThreadLocal);
    const Executable executable(graph);
    for (int i = 1; i < 4; ++i) {
      check(cudaMemsetAsync(me.in.data(), i, me.in.bytes(), me.stream));
      executable.launch(me.stream);
      EXPECT_EQ(Rank::get(me.out.data()), std::vector<int>(elements, 0x01010101 * i * ranks));
    }
  });
}

}  // namespace
}  // namespace emulated_gpu::semantics
