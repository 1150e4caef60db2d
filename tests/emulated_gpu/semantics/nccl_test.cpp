// SPDX-License-Identifier: Apache-2.0
// Tests NCCL on one GPU. nccl_ranks_test.cpp tests several ranks.
#include "emulated_gpu/semantics/nccl.hpp"

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "emulated_gpu/semantics/graph.hpp"
#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

using Bytes = std::vector<unsigned char>;

class NcclAlone : public Gpu {
 protected:
  static constexpr std::size_t count = 100;
  static Bytes ones() { return Bytes(8 * count, 1); }
};

struct Type {
  ncclDataType_t type;
  std::size_t bytes;
};
constexpr Type types[] = {{ncclInt8, 1},   {ncclUint8, 1},   {ncclInt32, 4},   {ncclUint32, 4},  {ncclInt64, 8},
                          {ncclUint64, 8}, {ncclFloat16, 2}, {ncclFloat32, 4}, {ncclFloat64, 8}, {ncclBfloat16, 2}};
constexpr ncclRedOp_t operators[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

// NCCL User Guide, Communicator Creation and Management Functions: ncclGetVersion
TEST_F(NcclAlone, HasAVersion) {
  int version = 0;
  ASSERT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_GE(version, NCCL_VERSION(2, 18, 0));
}

// NCCL User Guide, Communicator Creation and Management Functions: ncclGetUniqueId
TEST_F(NcclAlone, GivesEveryCommunicatorAnIdOfItsOwn) {
  const ncclUniqueId first = new_id();
  const ncclUniqueId second = new_id();
  EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
}

// NCCL User Guide, Communicator Creation and Management Functions: ncclCommCount, ncclCommCuDevice, ncclCommUserRank
TEST_F(NcclAlone, KnowsItsPlace) {
  Communicator communicator(1, new_id(), 0);
  int ranks = 0;
  int rank = -1;
  int device = -1;
  EXPECT_EQ(ncclCommCount(communicator, &ranks), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(communicator, &rank), ncclSuccess);
  EXPECT_EQ(ncclCommCuDevice(communicator, &device), ncclSuccess);
  EXPECT_EQ(ranks, 1);
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(device, 0);
  communicator.close();
}

// NCCL User Guide, Creating a communicator with options; Fault Tolerance: with blocking = 0 a call may return
// ncclInProgress, and ncclCommGetAsyncError returns the final result
TEST_F(NcclAlone, MayAnswerBeforeItIsDone) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t handle = nullptr;
  ncclResult_t result = ncclCommInitRankConfig(&handle, 1, new_id(), 0, &config);
  EXPECT_TRUE(result == ncclSuccess || result == ncclInProgress) << result;
  ASSERT_NE(handle, nullptr);
  Communicator communicator(handle);
  ASSERT_EQ(outcome(communicator), ncclSuccess);
  const Array<unsigned char> from(ones());
  const Array<unsigned char> to(from.bytes());
  const Stream stream;
  result = ncclAllReduce(from.data(), to.data(), count, ncclFloat64, ncclSum, communicator, stream);
  EXPECT_TRUE(result == ncclSuccess || result == ncclInProgress) << result;
  ASSERT_EQ(outcome(communicator), ncclSuccess);
  stream.synchronize();
  EXPECT_EQ(to.values(), ones());
  communicator.close();
}

// NCCL User Guide, Communicator Creation and Management Functions: ncclCommGetAsyncError without an error
TEST_F(NcclAlone, HasNoErrorWhereNoneHasOccurred) {
  Communicator communicator(1, new_id(), 0);
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(communicator, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  communicator.close();
}

// NCCL User Guide, Collective Operations: AllReduce, with each type and operator; In-place Operations
TEST_F(NcclAlone, KeepsWhatItReduces) {
  Communicator communicator(1, new_id(), 0);
  const Stream stream;
  for (const auto& [type, bytes] : types) {
    for (const ncclRedOp_t op : operators) {
      const Array<unsigned char> from(ones());
      const Array<unsigned char> to(from.bytes());
      ASSERT_EQ(ncclAllReduce(from.data(), to.data(), count, type, op, communicator, stream), ncclSuccess);
      Bytes expected(8 * count);
      std::fill_n(expected.begin(), bytes * count, static_cast<unsigned char>(1));
      EXPECT_EQ(to.values(), expected) << type << " " << op;
      ASSERT_EQ(ncclAllReduce(from.data(), from.data(), count, type, op, communicator, stream), ncclSuccess);
      EXPECT_EQ(from.values(), ones()) << type << " " << op << " in place";
    }
  }
  communicator.close();
}

// NCCL User Guide, Collective Operations: with one rank each of them is a copy, or nothing if in place
TEST_F(NcclAlone, CopiesByEachCollective) {
  Communicator communicator(1, new_id(), 0);
  const Stream stream;
  const auto with_each = [&](const void* from, void* to) {
    return std::vector<ncclResult_t>{ncclReduce(from, to, count, ncclInt64, ncclSum, 0, communicator, stream),
                                     ncclBroadcast(from, to, count, ncclInt64, 0, communicator, stream),
                                     ncclAllGather(from, to, count, ncclInt64, communicator, stream),
                                     ncclReduceScatter(from, to, count, ncclInt64, ncclSum, communicator, stream)};
  };
  const std::vector<ncclResult_t> all_well(4, ncclSuccess);
  const Array<unsigned char> from(ones());
  const Array<unsigned char> to(from.bytes());
  EXPECT_EQ(with_each(from.data(), to.data()), all_well);
  EXPECT_EQ(to.values(), ones());
  EXPECT_EQ(with_each(from.data(), from.data()), all_well);
  EXPECT_EQ(from.values(), ones());
  communicator.close();
}

// NCCL User Guide, CUDA Stream Semantics: an operation is in the order of its stream
TEST_F(NcclAlone, IsInTheOrderOfTheStream) {
  Communicator communicator(1, new_id(), 0);
  const Array<unsigned char> from(8 * count);
  const Array<unsigned char> to(8 * count);
  const Pinned<unsigned char> seen(8 * count);
  const Stream stream;
  check(ncclAllReduce(from.data(), to.data(), count, ncclInt64, ncclSum, communicator, stream));
  stream.synchronize();
  Gate gate(stream);
  check(cudaMemsetAsync(from.data(), 1, from.bytes(), stream));
  check(ncclAllReduce(from.data(), to.data(), count, ncclInt64, ncclSum, communicator, stream));
  check(cudaMemcpyAsync(seen.data(), to.data(), to.bytes(), cudaMemcpyDeviceToHost, stream));
  EXPECT_TRUE(stays_busy(stream));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(Bytes(seen.data(), seen.data() + seen.bytes()), ones());
  communicator.close();
}

// NCCL User Guide, Group Calls, Aggregated Operations: the calls of a group are executed when it ends; groups may be
// nested
TEST_F(NcclAlone, DoesAllOfAGroup) {
  Communicator communicator(1, new_id(), 0);
  const Array<unsigned char> from(ones());
  const Array<unsigned char> first(8 * count);
  const Array<unsigned char> second(8 * count);
  const Stream stream;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(from.data(), first.data(), count, ncclInt64, ncclSum, communicator, stream), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(ncclBroadcast(from.data(), second.data(), count, ncclInt64, 0, communicator, stream), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(first.values(), ones());
  EXPECT_EQ(second.values(), ones());
  communicator.close();
}

// NCCL User Guide, Group Calls: ncclGroupEnd requires an ncclGroupStart
TEST_F(NcclAlone, EndsNoGroupThatWasNotBegun) { EXPECT_NE(ncclGroupEnd(), ncclSuccess); }

// NCCL User Guide, Point-to-point communication: in one group, the k-th send matches the k-th receive
TEST_F(NcclAlone, SendsToItselfInAGroup) {
  Communicator communicator(1, new_id(), 0);
  const Array<int> from(std::vector<int>{1, 2, 3, 4});
  const Array<int> to(4);
  const Stream stream;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(from.data(), 3, ncclInt32, 0, communicator, stream), ncclSuccess);
  EXPECT_EQ(ncclSend(from.data() + 3, 1, ncclInt32, 0, communicator, stream), ncclSuccess);
  EXPECT_EQ(ncclRecv(to.data() + 1, 3, ncclInt32, 0, communicator, stream), ncclSuccess);
  EXPECT_EQ(ncclRecv(to.data(), 1, ncclInt32, 0, communicator, stream), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(to.values(), (std::vector<int>{4, 1, 2, 3}));
  communicator.close();
}

// NCCL User Guide, Creating more communicators: ncclCommSplit returns NULL for NCCL_SPLIT_NOCOLOR
TEST_F(NcclAlone, IsSplit) {
  Communicator communicator(1, new_id(), 0);
  ncclComm_t none = communicator;
  EXPECT_EQ(ncclCommSplit(communicator, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr), ncclSuccess);
  EXPECT_EQ(none, nullptr);
  ncclComm_t handle = nullptr;
  ASSERT_EQ(ncclCommSplit(communicator, 7, 3, &handle, nullptr), ncclSuccess);
  Communicator part(handle);
  int ranks = 0;
  EXPECT_EQ(ncclCommCount(part, &ranks), ncclSuccess);
  EXPECT_EQ(ranks, 1);
  communicator.close();
  const Array<unsigned char> memory(ones());
  const Stream stream;
  EXPECT_EQ(ncclAllReduce(memory.data(), memory.data(), count, ncclInt64, ncclSum, part, stream), ncclSuccess);
  EXPECT_EQ(memory.values(), ones());
  part.close();
}

// NCCL User Guide, Using NCCL with CUDA Graphs
TEST_F(NcclAlone, IsCapturedAndReplayed) {
  Communicator communicator(1, new_id(), 0);
  const Array<int> from(4);
  const Array<int> to(4);
  const Stream stream;
  check(ncclAllReduce(from.data(), to.data(), 4, ncclInt32, ncclSum, communicator, stream));
  stream.synchronize();
  {
    const auto body = [&] {
      check(ncclAllReduce(from.data(), to.data(), 4, ncclInt32, ncclSum, communicator, stream));
    };
    const Graph graph(stream, body, cudaStreamCaptureModeThreadLocal);
    const Executable executable(graph);
    EXPECT_EQ(to.values(), std::vector<int>(4));
    for (int i = 1; i < 4; ++i) {
      check(cudaMemsetAsync(from.data(), i, from.bytes(), stream));
      executable.launch(stream);
      EXPECT_EQ(to.values(), std::vector<int>(4, 0x01010101 * i));
    }
  }
  communicator.close();
}

// NCCL User Guide, User Buffer Registration, Memory Allocator: ncclMemAlloc, ncclMemFree; ncclCommRegister
TEST_F(NcclAlone, GivesMemory) {
  Communicator communicator(1, new_id(), 0);
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 8 * count), ncclSuccess);
  ASSERT_NE(memory, nullptr);
  void* registration = nullptr;
  ASSERT_EQ(ncclCommRegister(communicator, memory, 8 * count, &registration), ncclSuccess);
  const Array<unsigned char> to(8 * count);
  const Stream stream;
  check(cudaMemsetAsync(memory, 1, 8 * count, stream));
  EXPECT_EQ(ncclAllReduce(memory, to.data(), count, ncclInt64, ncclSum, communicator, stream), ncclSuccess);
  stream.synchronize();
  EXPECT_EQ(to.values(), ones());
  EXPECT_EQ(ncclCommDeregister(communicator, registration), ncclSuccess);
  communicator.close();
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
}

// NCCL User Guide, User Buffer Registration, Window Registration
TEST_F(NcclAlone, RegistersWindows) {
  Communicator communicator(1, new_id(), 0);
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 8 * count), ncclSuccess);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(communicator, nullptr, 8 * count, &window, NCCL_WIN_COLL_SYMMETRIC),
            ncclInvalidArgument);
  ASSERT_EQ(ncclCommWindowRegister(communicator, memory, 8 * count, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
  const Stream stream;
  check(cudaMemsetAsync(memory, 1, 8 * count, stream));
  EXPECT_EQ(ncclAllReduce(memory, memory, count, ncclInt64, ncclSum, communicator, stream), ncclSuccess);
  stream.synchronize();
  EXPECT_EQ(ncclCommWindowDeregister(communicator, window), ncclSuccess);
  communicator.close();
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
}

// NCCL User Guide, Fault Tolerance: ncclCommAbort of a communicator that is still being made
TEST_F(NcclAlone, IsAbortedWhileItWaitsForOthers) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t handle = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&handle, 2, new_id(), 0, &config);
  ASSERT_TRUE(result == ncclSuccess || result == ncclInProgress) << result;
  for (int i = 0; i < 100; ++i) {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(handle, &state), ncclSuccess);
    ASSERT_EQ(state, ncclInProgress);
  }
  EXPECT_EQ(ncclCommAbort(handle), ncclSuccess);
}

// NCCL User Guide, Creating a Communicator: a device is only one rank of a communicator; NCCL 2.28 reports it
TEST_F(NcclAlone, IsNotTwoRanks) {
  const ncclUniqueId id = new_id();
  std::vector<ncclResult_t> results(2, ncclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&results, id, rank] {
      check(cudaSetDevice(0));
      ncclComm_t communicator = nullptr;
      results[static_cast<std::size_t>(rank)] = ncclCommInitRank(&communicator, 2, id, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, std::vector<ncclResult_t>(2, ncclInvalidUsage));
}

// NCCL User Guide, Communicator Creation and Management Functions: ncclGetErrorString
TEST_F(NcclAlone, HasAWordForEveryResult) {
  std::set<std::string> all;
  for (const ncclResult_t code : {ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError,
                                  ncclInvalidArgument, ncclInvalidUsage, ncclRemoteError, ncclInProgress})
    EXPECT_TRUE(all.insert(ncclGetErrorString(code)).second) << code;
  EXPECT_EQ(all.count(""), 0U);
}

// NCCL User Guide, Types, ncclResult_t: ncclInvalidArgument for invalid ranks
TEST_F(NcclAlone, IsNotARankThatThereIsNot) {
  const ncclUniqueId id = new_id();
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(ncclCommInitRank(&communicator, 1, id, 1), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&communicator, 1, id, -1), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&communicator, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
}

// NCCL User Guide, Types, ncclResult_t; Error handling and communicator abort: ncclInvalidArgument affects only that
// call
TEST_F(NcclAlone, GoesOnAfterAnInvalidArgument) {
  Communicator communicator(1, new_id(), 0);
  const Array<unsigned char> from(ones());
  const Array<unsigned char> to(8 * count);
  const Stream stream;
  const auto broadcast = [&](int root) {
    return ncclBroadcast(from.data(), to.data(), count, ncclInt64, root, communicator, stream);
  };
  const auto reduce = [&](ncclDataType_t type, ncclRedOp_t op) {
    return ncclAllReduce(from.data(), to.data(), count, type, op, communicator, stream);
  };
  EXPECT_EQ(broadcast(1), ncclInvalidArgument);
  EXPECT_EQ(broadcast(-1), ncclInvalidArgument);
  EXPECT_EQ(reduce(ncclNumTypes, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(reduce(ncclInt64, ncclNumOps), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(from.data(), to.data(), count, ncclInt64, ncclSum, nullptr, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclSend(from.data(), count, ncclInt64, 1, communicator, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(communicator, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_EQ(to.values(), Bytes(8 * count));
  EXPECT_EQ(broadcast(0), ncclSuccess);
  EXPECT_EQ(to.values(), ones());
  communicator.close();
}

// NCCL User Guide, Communicator Creation and Management Functions: destroying or aborting a null communicator is no
// error
TEST_F(NcclAlone, OfNoneIsDestroyedToNoEffect) {
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);
}

}  // namespace
}  // namespace emulated_gpu::semantics
