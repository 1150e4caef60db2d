// SPDX-License-Identifier: Apache-2.0
// The trainer's own step on GPUs: it gives the bits of the same kernels on the host, as items or as one CUDA graph.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "emulated_gpu/lockstep/ranks.hpp"
#include "emulated_gpu/lockstep/test_ops.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "ops/cuda/cuda_device.hpp"
#include "support/errors.hpp"
#include "trainer/replica/host_mirror.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using trainer::Trainer;

nn::Graph two_layers() {
  const nn::DataSpec data = nn::DataSpec::of_images(1, 12, 12, 10);
  nn::Graph graph("two layers");
  graph.input(data.at("images"));
  graph.add("fc1", nn::Linear{.out_features = 16});
  graph.add("relu", nn::Relu{});
  graph.add("fc2", nn::Linear{.out_features = data.classes});
  nn::classify(graph, data);
  return graph;
}

/// Steps of 24 samples and, at the end of each epoch, of 13. The loss scale is too large at first, so that steps are
/// skipped.
trainer::TrainerOptions options_of_run(bool capture) {
  return {.epochs = 5,
          .batch = {24},
          .schedule = {.peak = 0.05},
          .optimizer = {.momentum = 0.9},
          .step = {.clip_norm = 0.5, .ema = 0.75, .loss_scale = {.initial = 0x1p134, .interval = 4}},
          .passes = {.fuse = false, .capture = capture},
          .eval_interval = 0};
}

/// The end of a run, in host memory.
struct End {
  std::vector<float> weights;
  std::vector<float> averages;
  std::int64_t skipped = 0;
  double loss_scale = 0;
  std::vector<observe::MetricValue> test_results;
  int submitted = 0;  // kernels
};

std::vector<float> host_copy(const Trainer& trainer, const Buffer& memory) {
  const trainer::HostMirror view(trainer.replica().model().device(), memory);
  const auto* first = static_cast<const float*>(view.buffer().data);
  return {first, first + view.buffer().count.value};
}

std::unique_ptr<TestOps> ops_for(const ProcessGroup& group) {
  return make_test_ops(group.gpu() ? ops::make_cuda_device(*group.gpu()) : nullptr);
}

class TrainerStep : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }

  ProcessGroup group(Device device) {
    return ProcessGroup(world_, {.device = device,
                                 .algorithm = "tree-order",
                                 .wait = {.spins_before_yield = 0},
                                 .deadline = std::chrono::seconds(60)});
  }

  End train(Device device, bool capture) {
    ProcessGroup group = this->group(device);
    End end;
    {
      const std::unique_ptr<TestOps> ops = ops_for(group);
      const data::DatasetPair data = testing_support::small_digits(61, 20, 12);
      const int before = ops->submitted();
      Trainer trainer(group, *ops, two_layers(), data, options_of_run(capture));
      const trainer::RunState& run = trainer.run();
      end.submitted = ops->submitted() - before;
      EXPECT_EQ(run.global_step, 15);
      end.skipped = run.skipped;
      end.loss_scale = run.loss_scale;
      end.test_results = trainer.evaluate();
      end.weights = host_copy(trainer, trainer.replica().store().values());
      end.averages = host_copy(trainer, trainer.replica().store().averages());
    }
    group.close();
    return end;
  }

  World world_;
};

TEST_F(TrainerStep, GivesTheBitsOfTheHostAsItemsAndAsAGraph) {
  const End host = train(Device::cpu, true);
  EXPECT_GT(host.skipped, 0);
  EXPECT_LT(host.skipped, 10);
  for (const bool capture : {false, true}) {
    const End gpu = train(Device::cuda, capture);
    EXPECT_EQ(gpu.weights, host.weights) << "captured: " << capture;
    EXPECT_EQ(gpu.averages, host.averages) << "captured: " << capture;
    EXPECT_EQ(gpu.skipped, host.skipped);
    EXPECT_EQ(gpu.loss_scale, host.loss_scale);
    ASSERT_EQ(gpu.test_results.size(), host.test_results.size());
    for (std::size_t i = 0; i < host.test_results.size(); ++i)
      EXPECT_EQ(gpu.test_results[i].value, host.test_results[i].value) << host.test_results[i].name;
    // The 15 steps have two sizes. Each size is submitted three times: as it is, and to be captured in each of the two
    // slots, in which steps take turns.
    EXPECT_EQ(15 * gpu.submitted, (capture ? 6 : 15) * host.submitted);
  }
}

/// A run without a loss scale after three steps, so that later ones are launched as graphs; and a batch for it.
struct Started {
  explicit Started(ProcessGroup& in)
      : group(in), trainer(in, *ops, two_layers(), testing_support::small_digits(61, 20, 12), options()) {
    trainer.train_steps(3);
  }
  [[nodiscard]] std::vector<float> weights() const { return host_copy(trainer, trainer.replica().store().values()); }
  /// Takes a step that must fail. @return its error
  [[nodiscard]] Error error_of_finishing() {
    trainer::RunState run;
    try {
      trainer.replica().finish(run);
    } catch (const Error& error) {
      return error;
    }
    return {ErrorCode::unsupported, "the step has succeeded"};
  }

  static constexpr std::int64_t samples = 3;  // of each rank
  ProcessGroup& group;
  const std::unique_ptr<TestOps> ops = ops_for(group);
  Trainer trainer;
  std::vector<float> images = std::vector<float>(samples * 12 * 12, 0.5F);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(samples, 1);
  const std::array<Buffer, 2> tensors{Buffer(images), Buffer(labels)};
  const data::Batch batch{.samples = {samples}, .step_samples = {samples * group.size()}, .tensors = tensors};
  const int culprit = group.size() - 1;

 private:
  static trainer::TrainerOptions options() {
    trainer::TrainerOptions options = options_of_run(true);
    options.step.loss_scale = {};
    return options;
  }
};

/// Without a loss scale a gradient that is not finite ends the run, and the error names the rank and the tensor.
TEST_F(TrainerStep, NamesTheRankWhoseGradientIsNotFinite) {
  ProcessGroup group = this->group(Device::cuda);
  {
    Started run(group);
    const std::vector<float> before = run.weights();
    if (group.rank() == Rank{run.culprit}) run.images[7] = std::numeric_limits<float>::quiet_NaN();
    run.trainer.replica().submit(run.batch, 0.1, 3);
    const Error error = run.error_of_finishing();
    EXPECT_EQ(error.code(), ErrorCode::diverged);
    EXPECT_EQ(error.context().peers, std::vector<int>{run.culprit});
    EXPECT_NE(std::string(error.what()).find("'fc1.weight'"), std::string::npos) << error.what();
    EXPECT_EQ(run.weights(), before);
  }
  group.close();
}

/// The results of a step are read while the next one runs. After a step with a bad value the next one changes nothing.
TEST_F(TrainerStep, ABadLabelHaltsTheStepThatIsUnderWayToo) {
  ProcessGroup group = this->group(Device::cuda);
  {
    Started run(group);
    trainer::Replica& replica = run.trainer.replica();
    const std::vector<float> before = run.weights();
    if (group.rank() == Rank{run.culprit}) run.labels[2] = 10;
    replica.submit(run.batch, 0.1, 3);
    run.labels[2] = 1;  // the batch was read
    replica.submit(run.batch, 0.1, 4);
    EXPECT_EQ(replica.model().in_flight(), 2);
    EXPECT_THROW(replica.submit(run.batch, 0.1, 5), Error);
    const Error error = run.error_of_finishing();
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error.context().peers, std::vector<int>{run.culprit});
    EXPECT_NE(std::string(error.what()).find("label of sample 2 is 10"), std::string::npos) << error.what();
    EXPECT_EQ(replica.model().in_flight(), 0);
    EXPECT_EQ(run.weights(), before);
    trainer::RunState state;
    replica.submit(run.batch, 0.1, 5);
    replica.finish(state);
    EXPECT_NE(run.weights(), before);
  }
  group.close();
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
