// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/onednn.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "nn/drawn_run.hpp"
#include "nn/trainee.hpp"
#include "support/verdict.hpp"

namespace lockstep::nn {
namespace {

/// Returns the relative L2 distance of one tensor's gradients.
double distance(const TraineeOf<float>& fast, const Trainee& exact, const TensorSlot& tensor) {
  double difference = 0;
  double norm = 0;
  for (std::int64_t i = tensor.offset.value; i < tensor.offset.value + tensor.count.value; ++i) {
    const double reference = exact.gradients[static_cast<std::size_t>(i)];
    const double error = static_cast<double>(fast.gradients[static_cast<std::size_t>(i)]) - reference;
    difference += error * error;
    norm += reference * reference;
  }
  return std::sqrt(difference / norm);
}

void expect_agreement(const Graph& network, std::int32_t classes, OptimizationPasses passes = {}) {
  constexpr std::int64_t batch = 6;
  TraineeOf<float> fast(network, 1, nullptr, ops::make_onednn_ops(1), passes);
  Trainee exact(network);
  exact.parameters.assign(fast.parameters.begin(), fast.parameters.end());
  const std::vector<double> images = wavy(batch * image_elements(network));
  const std::vector<float> rounded(images.begin(), images.end());
  const std::vector<std::int32_t> labels = cycling_labels(batch, classes);
  const double loss = exact.differentiate({rounded.begin(), rounded.end()}, labels);
  EXPECT_NEAR(fast.differentiate(rounded, labels), loss, 1e-5 * loss);
  for (const TensorSlot& tensor : exact.model.parameters().tensors()) {
    EXPECT_LT(distance(fast, exact, tensor), 1e-5) << network.name() << ' ' << tensor.name;
  }
  for (std::size_t i = 0; i < exact.state.size(); ++i) EXPECT_NEAR(fast.state[i], exact.state[i], 1e-5);
}

TEST(OneDnn, GradientsOfWholeModelsAgreeWithTheReference) {
  expect_agreement(make_model("lenet", DataSpec::of_images(1, 28, 28, 10)), 10);
  expect_agreement(make_model("resnet20", DataSpec::of_images(3, 16, 16, 10)), 10);
}

TEST(OneDnn, SumsGradientsOfResultsWithSeveralReaders) {
  expect_agreement(knotty_network(), 3, {.fuse = false});
  expect_agreement(knotty_network(), 3);
}

/// Returns the memory per additional image in MiB.
double slope(Model& model, bool training) {
  const std::int64_t difference =
      model.activation_bytes(40, training).value - model.activation_bytes(8, training).value;
  return static_cast<double>(difference) / 32 / (1 << 20);
}

/// Memory is held for the results of convolutions and of blocks, and little else; without recomputation also for those
/// within blocks.
TEST(OneDnn, HoldsLittleMemoryForEachImageOfResnet20) {
  const Graph network = make_model("resnet20", DataSpec::of_images(3, 32, 32, 10));
  const auto ops = ops::make_onednn_ops(1);
  Model model(network, *ops, {});
  EXPECT_LE(slope(model, true), 1.2);
  EXPECT_LE(slope(model, false), 0.2);
  Model holding(network, *ops, {.passes = {.recompute = false}});
  EXPECT_GT(slope(holding, true), slope(model, true) + 0.2);
}

/// Emulated values are float32.
TEST(OneDnn, HoldsValuesOfBFloat16InHalfTheMemory) {
  if (!ops::make_onednn_ops(1)->half_kernels(DType::bfloat16).exist)
    LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const Graph network = make_model("resnet20", DataSpec::of_images(3, 32, 32, 10));
  const auto wide = ops::make_onednn_ops(1);
  const auto half = ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16, ops::HalfPrecision::native);
  Model in_float32(network, *wide, {});
  Model in_bfloat16(network, *half, {});
  for (const bool training : {true, false})
    EXPECT_LT(slope(in_bfloat16, training), 0.6 * slope(in_float32, training)) << training;
}

/// A concatenation, which oneDNN has no kernel for and so has float32 values, whose gradient is a sum.
Graph concatenated() {
  const DataSpec data = DataSpec::of_images(3, 8, 8, 10);
  Graph graph("concatenated");
  const int images = graph.input(data.at("images"));
  const Convolution convolution{.out_channels = 16, .padding = 1};
  const int first = graph.add("first", convolution, {images});
  const int second = graph.add("second", convolution, {first});
  const int both = graph.add("both", Concat{}, {first, second});
  const int left = graph.add("left", convolution, {both});
  const int right = graph.add("right", convolution, {both});
  graph.add("sum", Add{}, {left, right});
  graph.add("pool", GlobalAveragePool{});
  graph.add("fc", Linear{.out_features = data.classes});
  classify(graph, data);
  return graph;
}

TEST(OneDnn, AddsGradientsOfEmulatedValuesBesideNativeOnes) {
  if (!ops::make_onednn_ops(1)->half_kernels(DType::bfloat16).exist)
    LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto gradients = [](ops::HalfPrecision by) {
    DrawnRun<float> run(concatenated(), 10, {.batch = 4, .optimizer = {}},
                        ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16, by));
    run.step(0);
    return run.gradients;
  };
  const std::vector<float> native = gradients(ops::HalfPrecision::native);
  const std::vector<float> emulated = gradients(ops::HalfPrecision::emulated);
  const float largest = std::abs(*std::ranges::max_element(emulated, {}, [](float one) { return std::abs(one); }));
  ASSERT_GT(largest, 0);
  for (std::size_t i = 0; i < native.size(); ++i) ASSERT_NEAR(native[i], emulated[i], 0.03 * largest) << i;
}

}  // namespace
}  // namespace lockstep::nn
