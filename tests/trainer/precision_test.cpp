// SPDX-License-Identifier: Apache-2.0
// Tests training in bfloat16 and float16, emulated or with native bfloat16 kernels, and with weights in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "support/verdict.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"
#include "trainer/whole_state.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t image_side = 20;  // extent of the images

using HalfFormat = std::optional<DType>;

std::unique_ptr<ops::Ops> ops_storing(HalfFormat half, ops::HalfPrecision by) {
  auto ops = ops::make_onednn_ops(1);
  return half ? ops::make_rounded_ops(std::move(ops), *half, by) : std::move(ops);
}

constexpr ops::HalfPrecision native = ops::HalfPrecision::native;
bool has_native() { return ops::make_onednn_ops(1)->half_kernels(DType::bfloat16).exist; }

/// Makes a ResNet block after a first convolution. The coefficient multiplies the loss's gradients.
nn::Graph residual_net(double coefficient = 1) {
  const nn::DataSpec data = nn::DataSpec::of_images(1, image_side, image_side, 10);
  nn::Graph graph("small");
  graph.input(data.at("images"));
  graph.add("conv1", nn::Convolution{.out_channels = 8, .padding = 1, .bias = false});
  graph.add("norm1", nn::BatchNorm{});
  const int first = graph.add("relu1", nn::Relu{});
  graph.add("conv", nn::Convolution{.out_channels = 8, .padding = 1, .bias = false});
  graph.add("norm", nn::BatchNorm{});
  graph.add("relu", nn::Relu{});
  graph.add("conv2", nn::Convolution{.out_channels = 8, .padding = 1, .bias = false});
  const int second = graph.add("norm2", nn::BatchNorm{});
  graph.add("sum", nn::Add{}, {first, second});
  graph.add("relu2", nn::Relu{});
  graph.add("pool", nn::MaxPool{});
  graph.add("fc", nn::Linear{.out_features = data.classes});
  const int logits = graph.last();
  graph.loss("loss", nn::CrossEntropy{}, {logits, graph.input(data.at("labels"))}, coefficient);
  return graph;
}

/// One rank that trains step by step.
class OneRank {
 public:
  OneRank(HalfFormat half, const TrainerOptions& options, double coefficient = 1, std::int64_t samples = 100,
          ops::HalfPrecision by = ops::HalfPrecision::emulated)
      : ops_(ops_storing(half, by)),
        trainer_(std::in_place, groups_[0], *ops_, residual_net(coefficient),
                 testing_support::small_digits(samples, 200, image_side), options) {}
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;
  ~OneRank() {
    trainer_.reset();
    groups_[0].close();
  }
  Trainer* operator->() { return &*trainer_; }
  testing_support::WholeState tensors() { return testing_support::whole_state(trainer_->replica().store()); }

 private:
  std::vector<ProcessGroup> groups_ = ProcessGroup::of_threads(1);
  std::unique_ptr<ops::Ops> ops_;
  std::optional<Trainer> trainer_;
};

std::vector<float> as_floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Returns how many values have bits that bfloat16 lacks.
std::int64_t beyond_bfloat16(const std::vector<float>& values) {
  return std::count_if(values.begin(), values.end(),
                       [](float x) { return (std::bit_cast<std::uint32_t>(x) & 0xffffU) != 0; });
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  double whole = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
    whole += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(squares / whole);
}

TEST(Precision, LowerOnesLearnAsFloat32Does) {
  const auto test_loss = [](HalfFormat half, double loss_scale, ops::HalfPrecision by = ops::HalfPrecision::emulated) {
    OneRank run(half,
                {.epochs = 4,
                 .batch = {20},
                 .schedule = {.peak = 0.01},
                 .optimizer = {.momentum = 0.9},
                 .step = {.loss_scale = {.initial = loss_scale}}},
                1, 600, by);
    const RunState result = run->run();
    EXPECT_LT(result.skipped, 12);
    return observe::value_of(result.evaluation, "loss").value();
  };
  const double in_float32 = test_loss(std::nullopt, 0);
  EXPECT_LT(in_float32, 1) << "it learns nothing: without, that is 2.3";
  EXPECT_NEAR(test_loss(DType::bfloat16, 0), in_float32, 0.15 * in_float32);
  EXPECT_NEAR(test_loss(DType::float16, 0x1p16), in_float32, 0.15 * in_float32);
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  EXPECT_NEAR(test_loss(DType::bfloat16, 0, native), in_float32, 0.15 * in_float32);
}

TEST(Precision, GradientsAreAsFarFromFloat32AsTheFormatHasBits) {
  const auto velocity = [](HalfFormat half) {
    OneRank run(half, {.batch = {100}, .optimizer = {.momentum = 0.9}});
    run->train_steps(1);
    return as_floats(run.tensors().optimizer_state[0]);
  };
  const std::vector<float> exact = velocity(std::nullopt);
  for (const auto& [half, unit] : {std::pair(DType::bfloat16, 0x1p-8), std::pair(DType::float16, 0x1p-11)}) {
    const double far = relative_distance(velocity(half), exact);
    EXPECT_GT(far, unit / 8) << name(half) << ": nothing was rounded";
    EXPECT_LT(far, unit * 32) << name(half);  // signs before a ReLU, or the maximum of a window, may differ
  }
}

/// The results differ because sums have another order, and because native kernels do not store the value between a
/// batch norm and a sum that follows it.
TEST(Precision, StepsOfKernelsThatStoreItAreNear) {
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto velocity = [](HalfFormat half, ops::HalfPrecision by) {
    OneRank run(half, {.batch = {50}, .schedule = {.peak = 0.01}, .optimizer = {.momentum = 0.9}}, 1, 100, by);
    run->train_steps(2);
    return as_floats(run.tensors().optimizer_state[0]);
  };
  const std::vector<float> emulated = velocity(DType::bfloat16, ops::HalfPrecision::emulated);
  const double far = relative_distance(velocity(std::nullopt, ops::HalfPrecision::emulated), emulated);
  const double near = relative_distance(velocity(DType::bfloat16, native), emulated);
  EXPECT_GT(near, 0) << "they are the same kernels";
  EXPECT_LT(near, far / 2);
}

TEST(Precision, WeightsAndVelocitiesKeepTheirBits) {
  OneRank run(DType::bfloat16, {.batch = {20}, .schedule = {.peak = 0.05}, .optimizer = {.momentum = 0.9}});
  run->train_steps(3);
  const testing_support::WholeState tensors = run.tensors();
  for (const auto* part : {&tensors.weights, &tensors.optimizer_state[0], &tensors.statistics}) {
    const std::vector<float> values = as_floats(*part);  // some are padding
    EXPECT_GT(10 * beyond_bfloat16(values), 4 * static_cast<std::int64_t>(values.size()));
  }
}

/// Every step either halves the scale and changes no weight, or counts towards doubling it.
TEST(Precision, GradientsTooLargeForFloat16AreSkippedUntilTheScaleFitsAgain) {
  constexpr double far_too_much = 0x1p24;
  const TrainerOptions options{.epochs = 6,
                               .batch = {20},
                               .schedule = {.peak = 0.01},
                               .step = {.loss_scale = {.initial = far_too_much, .interval = 3}}};
  OneRank run(DType::float16, options);
  double scale = far_too_much;
  int halved = 0;
  int doubled = 0;
  std::vector<std::byte> weights = run.tensors().weights;
  for (int step = 0; step < 30; ++step) {
    run->train_steps(1);
    const std::vector<std::byte> before = std::exchange(weights, run.tensors().weights);
    const double ratio = run->state().loss_scale / scale;
    EXPECT_TRUE(ratio == 0.5 || ratio == 1 || ratio == 2) << ratio;
    EXPECT_EQ(weights == before, ratio == 0.5) << step;
    halved += ratio == 0.5 ? 1 : 0;
    doubled += ratio == 2 ? 1 : 0;
    scale = run->state().loss_scale;
  }
  EXPECT_GT(halved, 3);
  EXPECT_GT(doubled, 0) << "it does not grow again";
  EXPECT_EQ(run->run().skipped, halved) << "they are counted";
  OneRank wide(std::nullopt, options);
  wide->train_steps(5);
  EXPECT_GE(wide->state().loss_scale, far_too_much) << "in float32 there is no such limit";
}

TEST(Precision, GradientsTooSmallForFloat16NeedALossScale) {
  constexpr double tiny = 1e-8;
  const auto velocity = [](HalfFormat half, double loss_scale) {
    OneRank run(half, {.batch = {20}, .optimizer = {.momentum = 0.9}, .step = {.loss_scale = {.initial = loss_scale}}},
                tiny);
    run->train_steps(1);
    return as_floats(run.tensors().optimizer_state[0]);
  };
  const std::vector<float> exact = velocity(std::nullopt, 0);
  const std::vector<float> zeros(exact.size());
  EXPECT_NE(exact, zeros);
  EXPECT_EQ(velocity(DType::float16, 0), zeros);
  EXPECT_LT(relative_distance(velocity(DType::float16, 0x1p24), exact), 0x1p-6);
}

TEST(Precision, PassesThatSaveMemoryChangeNoBit) {
  for (const ops::HalfPrecision by : {ops::HalfPrecision::emulated, native}) {
    if (by == native && !has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
    const auto weights = [by](const nn::OptimizationPasses& passes) {
      OneRank run(DType::bfloat16,
                  {.batch = {20}, .schedule = {.peak = 0.05}, .optimizer = {.momentum = 0.9}, .passes = passes}, 1, 100,
                  by);
      run->train_steps(4);
      return run.tensors().weights;
    };
    const auto with_all = weights({});
    EXPECT_EQ(weights({.recompute = false}), with_all);
    EXPECT_EQ(weights({.reuse_memory = false}), with_all);
  }
}

TEST(Precision, IsPartOfACheckpoint) {
  const data::TemporaryDirectory directory;
  const TrainerOptions options{.batch = {20}};
  OneRank brain(DType::bfloat16, options);
  brain->train_steps(1);
  brain->save_checkpoints({.folder = directory.path()});
  brain->save();
  OneRank again(DType::bfloat16, options);
  again->resume("last", directory.path());
  EXPECT_EQ(again.tensors(), brain.tensors());
  OneRank wide(std::nullopt, options);
  try {
    wide->resume("last", directory.path());
    ADD_FAILURE() << "float32 went on from bfloat16";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_NE(std::string(error.what()).find("precision bfloat16, this run float32"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep::trainer
