// SPDX-License-Identifier: Apache-2.0
// Tests the calls to NCCL with one rank on one GPU. It is skipped without a GPU.
#include "backends/nccl.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/contract/contract.hpp"
#include "backends/contract/device_memory.hpp"
#include "comm/call_signature.hpp"
#include "lockstep/base/error.hpp"
#include "platform/gpu/gpu.hpp"
#include "support/verdict.hpp"

namespace lockstep::backends {
namespace {

using contract::DeviceMemory;

NcclGroup alone() {
  const auto agree = [](const std::optional<Error>& mine) {
    if (mine) throw Error(*mine);
  };
  return {.rank = {0}, .size = 1, .gpu = 0, .agree = agree, .broadcast_from_zero = [](std::vector<std::byte> id) {
            return id;
          }};
}

/// An array of `count` elements on the GPU, with the bytes 0, 1, 2, …
class DeviceArray {
 public:
  DeviceArray(Communicator& communicator, Count count, DType dtype)
      : memory_(communicator.allocate({count.value * size_of(dtype)})), buffer_(memory_.as(dtype)) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(buffer_.bytes().value));
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    copy_bytes(buffer_.data, bytes.data(), buffer_.bytes(), stream_.queue());
    stream_.synchronize();
  }
  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  [[nodiscard]] std::vector<std::uint8_t> bytes() {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(buffer_.bytes().value));
    copy_bytes(host.data(), buffer_.data, buffer_.bytes(), stream_.queue());
    stream_.synchronize();
    return host;
  }
  void clear() {
    const std::vector<std::uint8_t> zeros(static_cast<std::size_t>(buffer_.bytes().value));
    copy_bytes(buffer_.data, zeros.data(), buffer_.bytes(), stream_.queue());
    stream_.synchronize();
  }

 private:
  Stream stream_;
  Allocation memory_;
  Buffer buffer_;
};

/// The exchange of one rank. With `others` there is another rank, which always calls a barrier.
class Signatures : public Exchange {
 public:
  explicit Signatures(bool others = false) : others_(others) {}
  void begin(std::span<const std::byte> own) override {
    all_.assign(own.begin(), own.end());
    const auto barrier = signature_of({.kind = CollectiveKind::barrier});
    if (others_) all_.insert(all_.end(), barrier.bytes().begin(), barrier.bytes().end());
    polls_ = 0;
  }
  std::span<const std::byte> poll() override {
    return ++polls_ < 3 ? std::span<const std::byte>() : std::span<const std::byte>(all_);
  }
  void close() override { closed = true; }

  bool closed = false;

 private:
  bool others_;
  int polls_ = 0;
  std::vector<std::byte> all_;
};

/// Checks every dtype and operator, in and out of place. @pre one rank
void expect_all_reduces_keep_values(Communicator& c) {
  for (const DType dtype : contract::common_dtypes) {
    for (const ReduceOp op : contract::arithmetic_ops) {
      DeviceArray in(c, {1000}, dtype);
      DeviceArray out(c, {1000}, dtype);
      const std::vector<std::uint8_t> expected = in.bytes();
      out.clear();
      c.all_reduce(in.buffer(), out.buffer(), op).wait();
      EXPECT_EQ(out.bytes(), expected) << name(dtype) << " " << name(op);
      c.all_reduce(in.buffer(), in.buffer(), op).wait();
      EXPECT_EQ(in.bytes(), expected) << name(dtype) << " " << name(op) << " in place";
    }
  }
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) LOCKSTEP_SKIP(gpu) << why_no_gpu();
    communicator_ = make_nccl(alone(), progress_);
  }
  void TearDown() override {
    if (communicator_) communicator_->close();
  }
  Communicator& communicator() { return *communicator_; }
  Progress& progress() { return progress_; }

 private:
  Progress progress_;
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(Nccl, KeepsTheContractOfEveryCommunicator) {
  const DeviceMemory memory;
  contract::check_all(communicator(), memory);
}

TEST_F(Nccl, KeepsTheContractWhereRanksCompareWhatTheyCall) {
  const auto check = std::make_shared<Signatures>();
  const auto c = make_nccl(alone(), progress(), {.check = check});
  contract::check_all(*c, DeviceMemory());
  EXPECT_TRUE(check->closed);
}

TEST_F(Nccl, AnotherCallOfAnotherRankIsAMismatchAndTouchesNothing) {
  const auto c = make_nccl(alone(), progress(), {.check = std::make_shared<Signatures>(true)});
  c->barrier().wait();
  DeviceArray in(*c, {1000}, DType::float32);
  DeviceArray out(*c, {1000}, DType::float32);
  out.clear();
  const std::vector<std::uint8_t> before = out.bytes();
  try {
    c->all_reduce(in.buffer(), out.buffer(), ReduceOp::sum).wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
    EXPECT_EQ(error.context().operation, "all_reduce");
  }
  EXPECT_EQ(out.bytes(), before);
}

TEST_F(Nccl, EveryOperatorOfAllReduceKeepsTheOnlyRanksValues) { expect_all_reduces_keep_values(communicator()); }

TEST_F(Nccl, TheOtherOperationsOfOneRankCopy) {
  for (const DType dtype : contract::common_dtypes) {
    DeviceArray in(communicator(), {257}, dtype);
    DeviceArray out(communicator(), {257}, dtype);
    const std::vector<std::uint8_t> expected = in.bytes();
    out.clear();
    communicator().all_gather(in.buffer(), out.buffer()).wait();
    EXPECT_EQ(out.bytes(), expected) << name(dtype) << " all_gather";
    out.clear();
    communicator().reduce_scatter(in.buffer(), out.buffer(), ReduceOp::sum).wait();
    EXPECT_EQ(out.bytes(), expected) << name(dtype) << " reduce_scatter";
    out.clear();
    communicator().reduce(in.buffer(), out.buffer(), ReduceOp::sum, {0}).wait();
    EXPECT_EQ(out.bytes(), expected) << name(dtype) << " reduce";
    out.clear();
    communicator().all_to_all(in.buffer(), out.buffer()).wait();
    EXPECT_EQ(out.bytes(), expected) << name(dtype) << " all_to_all";
    communicator().broadcast(in.buffer(), {0}).wait();
    EXPECT_EQ(in.bytes(), expected) << name(dtype) << " broadcast";
  }
}

TEST_F(Nccl, NoElementsAreNoWork) {
  DeviceArray some(communicator(), {4}, DType::float32);
  const Buffer none = slice(some.buffer(), {0}, {0});
  communicator().all_reduce(none, none, ReduceOp::sum).wait();
  communicator().barrier().wait();
}

TEST_F(Nccl, OperationsMayBeWaitedForInAnyOrder) {
  DeviceArray a(communicator(), {100000}, DType::float32);
  DeviceArray b(communicator(), {100000}, DType::float32);
  const std::vector<std::uint8_t> expected = a.bytes();
  Work first = communicator().all_reduce(a.buffer(), a.buffer(), ReduceOp::sum);
  Work second = communicator().all_reduce(b.buffer(), b.buffer(), ReduceOp::sum);
  second.wait();
  first.wait();
  EXPECT_EQ(a.bytes(), expected);
  EXPECT_EQ(b.bytes(), expected);
}

TEST_F(Nccl, AStreamIsOrderedBeforeAndAfterTheOperation) {
  constexpr std::int64_t count = 1 << 24;
  DeviceArray in(communicator(), {count}, DType::uint8);
  DeviceArray out(communicator(), {count}, DType::uint8);
  Allocation host = allocate_pinned({count});
  std::memset(host.data(), 7, count);
  Allocation result = allocate_pinned({count});
  Stream stream;
  // The host waits only at the end: copy in → all_reduce → copy out.
  copy_bytes(in.buffer().data, host.data(), {count}, stream.queue());
  Work work = communicator().all_reduce(in.buffer(), out.buffer(), ReduceOp::max, stream.queue());
  work.order_before(stream.queue());
  copy_bytes(result.data(), out.buffer().data, {count}, stream.queue());
  stream.synchronize();
  EXPECT_EQ(std::memcmp(result.data(), host.data(), count), 0);
  work.wait();
}

TEST_F(Nccl, HostMemoryIsRefused) {
  Allocation host = allocate_host({64});
  try {
    static_cast<void>(communicator().all_reduce(host.as(DType::float32), host.as(DType::float32), ReduceOp::sum));
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

TEST_F(Nccl, AClosedCommunicatorRefuses) {
  communicator().close();
  communicator().close();
  EXPECT_THROW(static_cast<void>(communicator().barrier()), Error);
}

TEST_F(Nccl, CommunicatorsCanBeMadeAgain) {
  communicator().close();
  auto again = make_nccl(alone(), progress());
  DeviceArray values(*again, {10}, DType::int32);
  const std::vector<std::uint8_t> expected = values.bytes();
  again->all_reduce(values.buffer(), values.buffer(), ReduceOp::sum).wait();
  EXPECT_EQ(values.bytes(), expected);
  again->close();
}

TEST_F(Nccl, ASecondAlgorithmInOneProcessIsRefused) {
  for (const NcclAlgorithm other : {NcclAlgorithm::ring, NcclAlgorithm::tree})
    EXPECT_THROW(make_nccl(alone(), progress(), {.algorithm = other}), Error);
}

TEST_F(Nccl, AGpuThatIsNotThereIsRefused) {
  NcclGroup group = alone();
  group.gpu = gpu_count();
  EXPECT_THROW(make_nccl(group, progress()), Error);
}

TEST_F(Nccl, ARankOutsideTheGroupIsRefused) {
  NcclGroup group = alone();
  group.rank = {1};
  EXPECT_THROW(make_nccl(group, progress()), Error);
}

/// Has a tree-order communicator in addition to the fixture's. Skipped in a build without a CUDA compiler.
class NcclTreeOrder : public Nccl {
 protected:
  void SetUp() override {
    Nccl::SetUp();
    if (IsSkipped()) return;
    try {
      tree_order_ = make();
    } catch (const Error& error) {
      const bool no_compiler = error.message().find("without a CUDA compiler") != std::string::npos;
      if (error.code() != ErrorCode::unsupported || !no_compiler) throw;
      LOCKSTEP_SKIP(cuda) << error.message();
    }
  }
  void TearDown() override {
    if (tree_order_) tree_order_->close();
    Nccl::TearDown();
  }
  std::unique_ptr<Communicator> make(std::shared_ptr<Exchange> check = nullptr) {
    return make_nccl(alone(), progress(), {.algorithm = NcclAlgorithm::tree_order, .check = std::move(check)});
  }
  Communicator& tree_order() { return *tree_order_; }

 private:
  std::unique_ptr<Communicator> tree_order_;
};

TEST_F(NcclTreeOrder, KeepsTheContractOfEveryCommunicator) { contract::check_all(tree_order(), DeviceMemory()); }

TEST_F(NcclTreeOrder, KeepsTheContractWhereRanksCompareWhatTheyCall) {
  contract::check_all(*make(std::make_shared<Signatures>()), DeviceMemory());
}

TEST_F(NcclTreeOrder, EveryOperatorKeepsTheOnlyRanksValuesInAndOutOfPlace) {
  expect_all_reduces_keep_values(tree_order());
}

TEST_F(NcclTreeOrder, StandsBesideNcclsOwnChoice) {
  DeviceArray a(communicator(), {100000}, DType::float32);
  DeviceArray b(tree_order(), {100000}, DType::float32);
  const std::vector<std::uint8_t> expected = a.bytes();
  Work by_nccl = communicator().all_reduce(a.buffer(), a.buffer(), ReduceOp::sum);
  Work by_tree_order = tree_order().all_reduce(b.buffer(), b.buffer(), ReduceOp::sum);
  by_tree_order.wait();
  by_nccl.wait();
  EXPECT_EQ(a.bytes(), expected);
  EXPECT_EQ(b.bytes(), expected);
}

TEST(NcclWithoutGpu, RefusesTreeOrderForWantOfThatOrOfACompiler) {
  if (gpu_count() > 0) LOCKSTEP_SKIP(no_gpu) << "there is one";
  Progress progress;
  try {
    make_nccl(alone(), progress, {.algorithm = NcclAlgorithm::tree_order});
    FAIL() << "was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_TRUE(error.message().find(why_no_gpu()) != std::string::npos ||
                error.message().find("without a CUDA compiler") != std::string::npos)
        << error.what();
  }
}

TEST(NcclWithoutGpu, SaysWhyItCannotBeMade) {
  if (gpu_count() > 0) LOCKSTEP_SKIP(no_gpu) << "there is one";
  Progress progress;
  try {
    make_nccl(alone(), progress);
    FAIL() << "was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find(why_no_gpu()), std::string::npos) << error.what();
    EXPECT_FALSE(why_no_gpu().empty());
  }
}

}  // namespace
}  // namespace lockstep::backends
