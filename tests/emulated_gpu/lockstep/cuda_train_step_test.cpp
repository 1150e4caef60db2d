// SPDX-License-Identifier: Apache-2.0
// The trainer's step with its operators for GPUs: a graph gives the bits of its items, whatever numbers it is launched
// with, and while graphs are launched the host neither allocates nor blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/dataset_of_sizes.hpp"
#include "emulated_gpu/device/faults.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/cuda.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "support/verdict.hpp"
#include "trainer/replica/host_mirror.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

/// A network whose steps depend on all that differs from step to step: inputs, statistics, random numbers.
nn::Graph small_network() {
  const nn::DataSpec data = nn::DataSpec::of_images(1, 12, 12, 10);
  nn::Graph graph("small network");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 4, .padding = 1, .bias = false});
  graph.add("bn", nn::BatchNorm{});
  graph.add("relu", nn::Relu{});
  graph.add("pool", nn::MaxPool{});
  graph.add("drop", nn::Dropout{.probability = 0.25});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// A network that is the same model for images of any size.
nn::Graph network_for(const std::vector<TensorSpec>& tensors) {
  const nn::DataSpec data{tensors, 10};
  nn::Graph graph("small network");
  graph.input(data.at("images"));
  graph.add("conv", nn::Convolution{.out_channels = 4, .padding = 1, .bias = false});
  graph.add("bn", nn::BatchNorm{});
  graph.add("relu", nn::Relu{});
  const std::int64_t side = data.at("images").extent[1];
  graph.add("pool", nn::AveragePool{.kernel = side, .stride = side});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// The course of a run, and its end in host memory.
struct Course {
  std::vector<double> losses;
  std::vector<std::int64_t> skipped;  // after each step
  std::vector<double> scales;
  std::vector<float> weights;
  std::vector<float> averages;
  std::vector<observe::MetricValue> test_results;
};

/// Notes what each step has done.
class Recorder final : public trainer::Listener {
 public:
  explicit Recorder(Course& course) : course_(course) {}
  void step(const observe::StepEvent& event) override {
    course_.losses.push_back(event.loss);
    course_.skipped.push_back(run->skipped);
    course_.scales.push_back(run->loss_scale);
  }
  void epoch(const observe::EpochEvent& /*event*/) override {}

  const trainer::RunState* run = nullptr;

 private:
  Course& course_;
};

class CudaTrainStep : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }

  /// Makes a group of all ranks.
  ProcessGroup group(std::chrono::seconds deadline = std::chrono::seconds(60)) {
    return ProcessGroup(
        world_,
        {.device = Device::cuda, .algorithm = "tree-order", .wait = {.spins_before_yield = 0}, .deadline = deadline});
  }

  static std::vector<float> host_copy(const trainer::Trainer& trainer, const Buffer& memory) {
    const trainer::HostMirror view(trainer.replica().model().device(), memory);
    const auto* first = static_cast<const float*>(view.buffer().data);
    return {first, first + view.buffer().count.value};
  }

  /// Takes steps of two sizes, at a rate that differs from step to step. The loss scale is too large at first, and
  /// again after some steps, so that launched graphs skip their updates, too.
  Course train(bool capture, DType values) {
    ProcessGroup group = this->group();
    Course course;
    {
      Recorder recorder(course);
      const std::unique_ptr<ops::Ops> ops = ops::make_cuda_ops(*group.gpu(), {.values = values});
      trainer::Trainer trainer(
          group, *ops, small_network(), testing_support::small_digits(21, 20, 12),
          {.epochs = epochs,
           .batch = {8},
           .schedule = {.peak = 0.05},
           .optimizer = {.momentum = 0.9},
           .step = {.clip_norm = 0.5,
                    .ema = 0.75,
                    .loss_scale = {.initial = values == DType::float16 ? 0x1p24 : 0x1p142, .interval = 2}},
           .passes = {.capture = capture},
           .log_every = 1,
           .eval_interval = 0},
          &recorder);
      recorder.run = &trainer.state();
      trainer.run();
      course.test_results = trainer.evaluate();
      course.weights = host_copy(trainer, trainer.replica().store().values());
      course.averages = host_copy(trainer, trainer.replica().store().averages());
    }
    group.close();
    return course;
  }

  /// Takes steps of 12×12, 8×8 and 4×4 pixels in turn.
  Course train_in_sizes(bool capture) {
    ProcessGroup group = this->group();
    Course course;
    {
      Recorder recorder(course);
      const std::unique_ptr<ops::Ops> ops = ops::make_cuda_ops(*group.gpu(), {});
      const std::vector<data::DatasetOfSizes::Size> sizes = {{12, 12}, {8, 8}, {4, 4}};
      const data::DatasetPair data{std::make_shared<data::DatasetOfSizes>(24, sizes),
                                   std::make_shared<data::DatasetOfSizes>(20, sizes)};
      trainer::Trainer trainer(group, *ops, network_for(data.train->tensors()), data,
                               {.epochs = epochs,
                                .batch = {8},
                                .schedule = {.peak = 0.05},
                                .optimizer = {.momentum = 0.9},
                                .passes = {.capture = capture},
                                .log_every = 1,
                                .eval_interval = 0,
                                .graphs = network_for},
                               &recorder);
      recorder.run = &trainer.state();
      trainer.run();
      course.test_results = trainer.evaluate();
      course.weights = host_copy(trainer, trainer.replica().store().values());
    }
    group.close();
    return course;
  }

  static constexpr std::int64_t epochs = 7;
  World world_;
};

TEST_F(CudaTrainStep, AGraphGivesTheBitsOfItsItemsWithOtherNumbersAndWithoutAnUpdate) {
  for (const DType values : {DType::float32, DType::float16}) {
    SCOPED_TRACE(name(values));
    const Course items = train(false, values);
    ASSERT_EQ(items.losses.size(), 3U * epochs);
    // The first nine steps have captured both sizes in both slots; later ones launch what has been captured.
    constexpr std::size_t captured = 9;
    const std::int64_t skipped = items.skipped.back() - items.skipped[captured];
    EXPECT_GT(skipped, 0);
    EXPECT_LT(skipped, static_cast<std::int64_t>(items.losses.size() - captured));
    const Course graphs = train(true, values);
    EXPECT_EQ(graphs.losses, items.losses);
    EXPECT_EQ(graphs.skipped, items.skipped);
    EXPECT_EQ(graphs.scales, items.scales);
    EXPECT_EQ(graphs.weights, items.weights);
    EXPECT_EQ(graphs.averages, items.averages);
    EXPECT_EQ(graphs.test_results, items.test_results);
  }
}

/// Ends its rank after a step, and keeps what the trainer remembered one step before.
class Mortal final : public trainer::Listener {
 public:
  explicit Mortal(bool dies) : dies_(dies) {}
  void progress(const observe::ProgressEvent& /*event*/) override {
    if (dies_ && trainer->state().global_step == 7) throw Error(ErrorCode::transport, "this rank ends");
    before = std::exchange(latest_, trainer->memory());
  }
  void step(const observe::StepEvent& /*event*/) override {}
  void epoch(const observe::EpochEvent& /*event*/) override {}

  trainer::Trainer* trainer = nullptr;
  std::optional<trainer::RunMemory> before;

 private:
  bool dies_;
  std::optional<trainer::RunMemory> latest_;
};

/// The last rank ends while the others take their next step, and rank 0 has not completed the one before. The others
/// make a new group, with communicators of NCCL, and end with the bits of a run that was not disturbed.
TEST_F(CudaTrainStep, FewerRanksGoOnWithTheSameBits) {
  const trainer::TrainerOptions options{.epochs = 4,
                                        .batch = {8},
                                        .schedule = {.peak = 0.05},
                                        .optimizer = {.rule = ops::UpdateRule::adamw},
                                        .step = {.shards = 4, .ema = 0.75},
                                        .log_every = 1,
                                        .eval_interval = 2};
  const data::DatasetPair data = testing_support::small_digits(21, 20, 12);
  const auto ops_for = [](const ProcessGroup& group) { return ops::make_cuda_ops(*group.gpu(), {}); };
  const auto end_of = [](trainer::Trainer& trainer) {
    trainer.run();
    trainer::Store& store = trainer.replica().store();
    std::vector<std::vector<float>> end{host_copy(trainer, store.values()), host_copy(trainer, store.averages())};
    for (const Buffer& state : store.optimizer_state()) end.push_back(host_copy(trainer, state));
    const trainer::GatheredStatistics statistics = store.statistics().gather();
    const auto* first = reinterpret_cast<const float*>(statistics.memory.data());
    end.emplace_back(first, first + statistics.memory.size() / sizeof(float));
    return end;
  };
  ProcessGroup all = group();
  const int last = all.size() - 1;
  std::vector<std::vector<float>> undisturbed;
  {
    const std::unique_ptr<ops::Ops> ops = ops_for(all);
    trainer::Trainer trainer(all, *ops, small_network(), data, options);
    undisturbed = end_of(trainer);
  }
  all.close();

  const bool dies = world_.rank().value == last;
  std::optional<trainer::RunMemory> memory;
  ProcessGroup doomed = group();
  {
    const std::unique_ptr<ops::Ops> ops = ops_for(doomed);
    Mortal listener(dies);
    trainer::Trainer trainer(doomed, *ops, small_network(), data, options, &listener);
    listener.trainer = &trainer;
    trainer.remember();
    try {
      trainer.run();
      ADD_FAILURE() << "no rank has ended";
    } catch (const Error& error) {
      doomed.abort(error.what());
      memory = world_.rank().value == 0 && last > 1 ? std::move(listener.before) : trainer.memory();
    }
  }
  ProcessGroup base(world_);
  std::optional<ProcessGroup> left =
      base.split(dies ? std::nullopt : std::optional(0), world_.rank().value,
                 {.device = Device::cuda, .algorithm = "tree-order", .wait = {.spins_before_yield = 0}});
  if (left) {
    {
      const std::unique_ptr<ops::Ops> ops = ops_for(*left);
      trainer::Trainer trainer(*left, *ops, small_network(), data, options);
      trainer.go_on_from(*memory);
      EXPECT_EQ(end_of(trainer), undisturbed);
    }
    left->close();
  }
  base.close();
}

/// Of each size, the first of seven steps runs as it is, and one in each of the two slots is captured.
TEST_F(CudaTrainStep, StepsOfSeveralSizesLaunchTheGraphOfTheirs) {
  const Course items = train_in_sizes(false);
  ASSERT_EQ(items.losses.size(), 3U * epochs);
  emulated_gpu::record_calls();
  const Course graphs = train_in_sizes(true);
  const std::vector<std::string> calls = emulated_gpu::recorded_calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cudaGraphLaunch"), 3 * (epochs - 1));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cudaStreamBeginCapture"), 3 * 2);
  EXPECT_EQ(graphs.losses, items.losses);
  EXPECT_EQ(graphs.weights, items.weights);
  EXPECT_EQ(graphs.test_results, items.test_results);
}

/// They are gathered into the host's memory, and taken from memory that ends with the checkpoint.
TEST_F(CudaTrainStep, StatisticsOfACheckpointAreThereWhenTheHostGoesOn) {
  ProcessGroup group = this->group();
  {
    const std::unique_ptr<ops::Ops> ops = ops::make_cuda_ops(*group.gpu(), {});
    trainer::Trainer trainer(group, *ops, small_network(), testing_support::small_digits(20, 20, 12),
                             {.batch = {8}, .schedule = {.peak = 0.05}, .sync_batch_norm = true, .eval_interval = 0});
    ASSERT_EQ(trainer.train_steps(2), 2);
    trainer::Store& store = trainer.replica().store();
    std::vector<float> expected = host_copy(trainer, store.statistics().all());
    const auto gathered = [&] {
      trainer::GatheredStatistics all = store.statistics().gather();
      EXPECT_EQ(std::memcmp(all.memory.data(), expected.data(), all.memory.size()), 0);
      return all;
    };
    for (int round = 0; round < 10; ++round) {
      trainer::GatheredStatistics all = gathered();
      for (float& value : expected) value += 1;
      std::memcpy(all.memory.data(), expected.data(), all.memory.size());
      store.statistics().take(all);
      std::fill(all.memory.begin(), all.memory.end(), std::byte{0xff});
      ASSERT_EQ(host_copy(trainer, store.statistics().all()), expected) << round;
    }
  }
  group.close();
}

/// What the host may call while it launches graphs. None of it allocates, and none waits for the GPU.
bool may_be_called(const std::string& call) {
  static const std::set<std::string> calls = {"cudaEventQuery",  "cudaEventRecord",     "cudaGraphLaunch",
                                              "cudaMemcpyAsync", "cudaStreamWaitEvent", "ncclCommGetAsyncError"};
  return calls.count(call) > 0;
}

TEST_F(CudaTrainStep, TheHostNeitherAllocatesNorBlocksWhileItLaunchesGraphs) {
  ProcessGroup group = this->group();
  {
    const std::unique_ptr<ops::Ops> ops = ops::make_cuda_ops(*group.gpu(), {});
    const std::int64_t batch = 3 * group.size();
    trainer::Trainer trainer(group, *ops, small_network(), testing_support::small_digits(26 * batch, 20, 12),
                             {.batch = {batch}, .schedule = {.peak = 0.05}, .eval_interval = 0});
    ASSERT_EQ(trainer.train_steps(5), 5);
    emulated_gpu::record_calls();
    ASSERT_EQ(trainer.train_steps(20), 20);
    std::map<std::string, int> calls;
    for (const std::string& call : emulated_gpu::recorded_calls()) ++calls[call];
    EXPECT_EQ(calls["cudaGraphLaunch"], 20);
    EXPECT_GE(calls["cudaEventQuery"], 20);
    for (const auto& [call, times] : calls) EXPECT_TRUE(may_be_called(call)) << call << ": " << times << " times";
  }
  group.close();
}

/// As a kernel that hangs, the queue is never done.
TEST_F(CudaTrainStep, AnEvaluationThatHangsEndsAfterTheDeadline) {
  ProcessGroup group = this->group();
  {
    const std::chrono::duration<double> deadline = std::chrono::milliseconds(500);
    const std::unique_ptr<ops::Ops> ops = ops::make_cuda_ops(*group.gpu(), {}, deadline);
    trainer::Trainer trainer(group, *ops, small_network(), testing_support::small_digits(20, 20, 12),
                             {.batch = {8}, .schedule = {.peak = 0.05}, .eval_interval = 0});
    trainer.evaluate();
    emulated_gpu::set_faults("cudaStreamQuery:1+:cudaErrorNotReady");
    const Clock::time_point begin = Clock::now();
    try {
      trainer.evaluate();
      ADD_FAILURE() << "the evaluation has ended";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      EXPECT_NE(std::string(error.what()).find("device 'cuda' has not finished"), std::string::npos) << error.what();
    }
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 1.2 * deadline.count() + 0.5);
    emulated_gpu::set_faults("");
  }
  group.close();
}

/// The label is found by a kernel of a launched graph, while the host has submitted the next step.
TEST_F(CudaTrainStep, ABadLabelInALaunchedGraphNamesRankAndSampleOnAllRanks) {
  ProcessGroup group = this->group();
  {
    constexpr std::int64_t samples = 3;  // of each rank
    const std::unique_ptr<ops::Ops> ops = ops::make_cuda_ops(*group.gpu(), {});
    const std::int64_t batch = samples * group.size();
    trainer::Trainer trainer(group, *ops, small_network(), testing_support::small_digits(26 * batch, 20, 12),
                             {.batch = {batch}, .schedule = {.peak = 0.05}, .eval_interval = 0});
    ASSERT_EQ(trainer.train_steps(6), 6);
    trainer::Replica& replica = trainer.replica();
    const std::vector<float> before = host_copy(trainer, replica.store().values());
    const int culprit = group.size() - 1;
    std::vector<std::uint8_t> images(samples * 12 * 12, 100);
    std::vector<std::int32_t> labels(samples, 1);
    const std::array<Buffer, 2> tensors{Buffer(images), Buffer(labels)};
    const data::Batch own{.samples = {samples}, .step_samples = {batch}, .tensors = tensors};
    if (group.rank() == Rank{culprit}) labels[2] = 10;
    emulated_gpu::record_calls();
    replica.submit(own, 0.1, 6);
    labels[2] = 1;  // the batch was read
    replica.submit(own, 0.1, 7);
    const std::vector<std::string> calls = emulated_gpu::recorded_calls();
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "cudaGraphLaunch"), 2);
    trainer::RunState run;
    try {
      replica.finish(run);
      ADD_FAILURE() << "the step has succeeded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.context().peers, std::vector<int>{culprit});
      EXPECT_NE(std::string(error.what()).find("label of sample 2 is 10"), std::string::npos) << error.what();
    }
    EXPECT_EQ(host_copy(trainer, replica.store().values()), before);
  }
  group.close();
}

/// The process is neither stopped nor dead, so that nothing but its absence tells which rank it is.
TEST_F(CudaTrainStep, ARankThatDoesNotTakeItsStepIsNamed) {
  if (world_.size() != 2) LOCKSTEP_SKIP(ranks) << "one rank waits for one other";
  constexpr std::chrono::seconds deadline(3);
  ProcessGroup group = this->group(deadline);
  {
    const std::unique_ptr<ops::Ops> ops = ops::make_cuda_ops(*group.gpu(), {});
    trainer::Trainer trainer(group, *ops, small_network(), testing_support::small_digits(80, 20, 12),
                             {.batch = {8}, .schedule = {.peak = 0.05}, .eval_interval = 0});
    ASSERT_EQ(trainer.train_steps(6), 6);
    if (world_.rank() == 1) std::this_thread::sleep_for(2 * deadline);
    try {
      (void)trainer.train_steps(1);
      ADD_FAILURE() << "the step has succeeded";
    } catch (const Error& error) {
      if (world_.rank() == 1) return;
      EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
      EXPECT_EQ(error.context().peers, std::vector<int>{1}) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
