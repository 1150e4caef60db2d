// SPDX-License-Identifier: Apache-2.0
// Tests steps of a DataParallel that the host only queues, one by one or as a graph. There is one rank;
// examples/cuda_step.cu covers several.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl.hpp"
#include "ddp/members.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/gpu/gpu.hpp"
#include "support/verdict.hpp"

namespace lockstep::ddp {
namespace {

/// One rank on the first GPU.
class OneOnAGpu : public Members {
 public:
  OneOnAGpu() : Members(std::move(from_threads(1).front()), {}, 0) {}

  std::unique_ptr<Communicator> make_on_device(Progress& progress, Use /*use*/) override {
    const auto agree = [](const std::optional<Error>& mine) {
      if (mine) throw Error(*mine);
    };
    return backends::make_nccl({.rank = {0},
                                .size = 1,
                                .gpu = 0,
                                .agree = agree,
                                .broadcast_from_zero = [](std::vector<std::byte> id) { return id; }},
                               progress);
  }
};

constexpr int parameters = 3;
constexpr std::int64_t elements = 100;
constexpr std::size_t bytes = elements * sizeof(float);

/// The parameter is whether there is a progress thread.
class StepCapture : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) LOCKSTEP_SKIP(gpu) << why_no_gpu();
    const auto notice = [this](std::string_view text) { notices_.emplace_back(text); };
    group_.emplace(group_of(std::make_unique<OneOnAGpu>(),
                            {.device = Device::cuda, .progress_thread = GetParam(), .notice = notice}));
    stream_.emplace();
    source_ = allocate_pinned({bytes});
    sums_ = allocate_device({parameters * bytes});
  }
  void TearDown() override {
    if (!group_) return;
    group_->close();
    EXPECT_EQ(notices_, std::vector<std::string>());
  }

  ProcessGroup& group() { return *group_; }
  cudaStream_t stream() { return static_cast<cudaStream_t>(stream_->queue().native()); }

  /// Copies gradients from host memory, which stands for a batch, and copies their sums to `sums_`.
  void queue_step(DataParallel& model) {
    for (int parameter = parameters - 1; parameter >= 0; --parameter) {
      copy_bytes(model.gradient(parameter).data, source_.data(), {bytes}, stream_->queue());
      model.ready(parameter, stream_->queue());
    }
    model.finish_on(stream_->queue());
    for (int parameter = 0; parameter < parameters; ++parameter) {
      float* sum = static_cast<float*>(sums_.data()) + parameter * elements;
      copy_bytes(sum, model.gradient(parameter).data, {bytes}, stream_->queue());
    }
  }
  void next_batch(float value) {
    auto* batch = static_cast<float*>(source_.data());
    for (std::int64_t i = 0; i < elements; ++i) batch[i] = value;
  }
  void wait() {
    while (cudaStreamQuery(stream()) == cudaErrorNotReady) {
      group().progress().poll();
      std::this_thread::yield();
    }
  }
  void expect_sums(float value) {
    std::vector<float> host(parameters * elements);
    copy_bytes(host.data(), sums_.data(), sums_.bytes(), stream_->queue());
    stream_->synchronize();
    EXPECT_EQ(host, std::vector<float>(host.size(), value));
  }

  void run_eagerly(DataParallel& model) {
    for (const float value : {1.0F, 2.0F, 3.0F}) {
      next_batch(value);
      queue_step(model);
      wait();
      expect_sums(value);
    }
    for (int step = 0; step < 5; ++step) queue_step(model);
    wait();
  }
  void run_as_a_graph(DataParallel& model) {
    next_batch(1);
    queue_step(model);
    wait();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
    queue_step(model);
    ASSERT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    for (const float value : {4.0F, 5.0F, 6.0F}) {
      next_batch(value);
      ASSERT_EQ(cudaGraphLaunch(executable, stream()), cudaSuccess);
      wait();
      expect_sums(value);
    }
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    next_batch(7);
    queue_step(model);
    wait();
    expect_sums(7);
  }

  /// Makes a DataParallel with its own memory and several buckets.
  DataParallel make_model() {
    Layout layout;
    for (int parameter = 0; parameter < parameters; ++parameter) layout.add(std::to_string(parameter), {elements});
    DataParallel model(group(), layout, DType::float32, {.bucket = {256}});
    model.synchronize();
    return model;
  }
  /// Makes a DataParallel of the program's own tensors.
  DataParallel make_model_of(const Allocation& values, const Allocation& gradients) {
    std::vector<Parameter> all;
    for (int parameter = 0; parameter < parameters; ++parameter) {
      const auto part = [&](const Allocation& memory) {
        return slice(memory.as(DType::float32), {parameter * elements}, {elements});
      };
      all.push_back({std::to_string(parameter), part(values), part(gradients)});
    }
    return {group(), all, {.bucket = {256}}};
  }

 private:
  std::vector<std::string> notices_;
  std::optional<ProcessGroup> group_;
  std::optional<Stream> stream_;
  Allocation source_;
  Allocation sums_;
};

TEST_P(StepCapture, StepsNeedNoHost) {
  DataParallel model = make_model();
  run_eagerly(model);
}

TEST_P(StepCapture, AStepIsAGraph) {
  DataParallel model = make_model();
  run_as_a_graph(model);
}

TEST_P(StepCapture, TheSameOfTheProgramsOwnTensors) {
  const Allocation values = allocate_device({parameters * bytes});
  const Allocation gradients = allocate_device({parameters * bytes});
  DataParallel model = make_model_of(values, gradients);
  run_eagerly(model);
  run_as_a_graph(model);
}

TEST_P(StepCapture, FinishIsForTheHost) {
  DataParallel model = make_model();
  next_batch(1);
  queue_step(model);
  for (int parameter = parameters - 1; parameter >= 0; --parameter) model.ready(parameter);
  EXPECT_EQ(model.finish(2).weight, 2);
  wait();
  expect_sums(1);
}

INSTANTIATE_TEST_SUITE_P(ProgressThread, StepCapture, testing::Bool());

}  // namespace
}  // namespace lockstep::ddp
