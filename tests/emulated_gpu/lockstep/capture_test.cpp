// SPDX-License-Identifier: Apache-2.0
// Tests operations that are captured into a graph: what is refused, how their Work behaves, and that replays are
// correct. There is one rank. The test is also labeled gpu, because nothing here depends on the emulation.
// @source NCCL User Guide, Using NCCL with CUDA Graphs; CUDA Runtime API, cudaStreamBeginCapture
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/nccl.hpp"
#include "lockstep/base/error.hpp"
#include "platform/gpu/gpu.hpp"
#include "support/verdict.hpp"

namespace lockstep::backends {
namespace {

NcclGroup alone() {
  const auto agree = [](const std::optional<Error>& mine) {
    if (mine) throw Error(*mine);
  };
  return {.rank = {0}, .size = 1, .gpu = 0, .agree = agree, .broadcast_from_zero = [](std::vector<std::byte> id) {
            return id;
          }};
}

/// Returns the error that the call throws, or that it throws nothing.
std::string thrown_by(const std::function<void()>& call, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.message();
  }
  return "nothing was thrown";
}

constexpr std::int64_t count = 1000;

class Capture : public testing::TestWithParam<cudaStreamCaptureMode> {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) LOCKSTEP_SKIP(gpu) << why_no_gpu();
    communicator_ = make_nccl(alone(), progress_);
    stream_.emplace();
    in_ = communicator_->allocate({count * 4});
    out_ = communicator_->allocate({count * 4});
    submit(Queue::host()).wait();  // NCCL makes its connections
  }
  void TearDown() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (communicator_) communicator_->close();
  }

  Communicator& communicator() { return *communicator_; }
  Progress& progress() { return progress_; }
  Buffer in() { return in_.as(DType::int32); }
  Buffer out() { return out_.as(DType::int32); }
  Queue queue() { return stream_->queue(); }
  cudaStream_t stream() { return static_cast<cudaStream_t>(queue().native()); }

  void begin() { ASSERT_EQ(cudaStreamBeginCapture(stream(), GetParam()), cudaSuccess); }
  void end() {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable_, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  void replay() {
    ASSERT_EQ(cudaGraphLaunch(executable_, stream()), cudaSuccess);
    stream_->synchronize();
  }
  void write(std::int32_t value) {
    const std::vector<std::int32_t> host(count, value);
    copy_bytes(in_.data(), host.data(), in_.bytes(), queue());
    stream_->synchronize();
  }
  std::vector<std::int32_t> read() {
    std::vector<std::int32_t> host(count);
    copy_bytes(host.data(), out_.data(), out_.bytes(), queue());
    stream_->synchronize();
    return host;
  }
  Collective all_reduce(Queue on) { return {CollectiveKind::all_reduce, out(), out(), ReduceOp::sum, {0}, on, {}}; }
  Work submit(Queue on) { return communicator().all_reduce(in(), out(), ReduceOp::sum, on); }

 private:
  Progress progress_;
  std::unique_ptr<Communicator> communicator_;
  std::optional<Stream> stream_;
  Allocation in_;
  Allocation out_;
  cudaGraphExec_t executable_ = nullptr;
};

TEST_P(Capture, RunsWhenTheGraphDoesAndAsOften) {
  begin();
  submit(queue()).order_before(queue());
  end();
  for (const std::int32_t value : {7, 8, 9}) {
    write(value);
    replay();
    EXPECT_EQ(read(), std::vector<std::int32_t>(count, value));
  }
  submit(queue()).wait();
}

TEST_P(Capture, TakesSeveralOperationsAndGroups) {
  begin();
  Work first = submit(queue());
  const std::array<Collective, 2> members = {
      all_reduce(queue()), {CollectiveKind::broadcast, out(), out(), ReduceOp::sum, {0}, queue(), {}}};
  std::vector<Work> group = communicator().group(members);
  first.order_before(queue());
  for (Work& work : group) work.order_before(queue());
  end();
  write(5);
  replay();
  EXPECT_EQ(read(), std::vector<std::int32_t>(count, 5));
}

TEST_P(Capture, HasNoWorkToWaitFor) {
  begin();
  Work work = submit(queue());
  EXPECT_TRUE(work.test());
  EXPECT_NE(thrown_by([&] { work.wait(); }).find("in a graph"), std::string::npos);
  work.order_before(queue());
  end();
  replay();
}

TEST_P(Capture, RefusesAnOperationBesideIt) {
  begin();
  Work work = submit(queue());
  Stream other;
  for (const Queue queue : {Queue::host(), other.queue()})
    EXPECT_NE(thrown_by([&] { (void)submit(queue); }).find("is captured"), std::string::npos);
  EXPECT_NE(thrown_by([&] { (void)communicator().barrier(); }).find("is captured"), std::string::npos);
  work.order_before(queue());
  end();
  replay();
  communicator().barrier().wait();
  submit(other.queue()).wait();
}

TEST_P(Capture, RefusesAGroupOfBothKinds) {
  Stream other;
  begin();
  const std::array<Collective, 2> members = {all_reduce(queue()), all_reduce(other.queue())};
  EXPECT_NE(thrown_by([&] { (void)communicator().group(members); }).find("some are not"), std::string::npos);
  submit(queue()).order_before(queue());
  end();
  replay();
}

TEST_P(Capture, TakesNoteOfWhatOnlyAStreamHasWaitedFor) {
  Work work = submit(queue());
  work.order_before(queue());
  ASSERT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  begin();
  submit(queue()).order_before(queue());
  end();
  replay();
  work.wait();
}

TEST_P(Capture, OrdersNoCapturedStreamAfterWhatIsNotCaptured) {
  Work eager = submit(Queue::host());
  begin();
  if (!eager.test()) {
    EXPECT_NE(thrown_by([&] { eager.order_before(queue()); }).find("wait for the operation before"), std::string::npos);
  }
  eager.wait();
  eager.order_before(queue());
  submit(queue()).order_before(queue());
  end();
  replay();
}

TEST_P(Capture, AnotherCommunicatorGoesOnMeanwhile) {
  const auto other = make_nccl(alone(), progress());
  Allocation memory = other->allocate({count * 4});
  Work eager = other->all_reduce(memory.as(DType::int32), memory.as(DType::int32), ReduceOp::sum);
  begin();
  Work captured = submit(queue());
  eager.wait();
  other->barrier().wait();
  memory = allocate_device({64});
  memory = {};
  captured.order_before(queue());
  end();
  write(3);
  replay();
  EXPECT_EQ(read(), std::vector<std::int32_t>(count, 3));
  other->close();
}

TEST_P(Capture, SaysThatACaptureHasFailed) {
  begin();
  ASSERT_NE(cudaStreamSynchronize(stream()), cudaSuccess);
  EXPECT_NE(thrown_by([&] { (void)submit(queue()); }).find("has failed"), std::string::npos);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
  submit(queue()).wait();
}

INSTANTIATE_TEST_SUITE_P(Modes, Capture,
                         testing::Values(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                         cudaStreamCaptureModeRelaxed));

}  // namespace
}  // namespace lockstep::backends
