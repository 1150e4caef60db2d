// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/explain.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/cost.hpp"

namespace lockstep::nn {
namespace {

/// 2 images of 3 channels, 8×8.
const std::vector<ops::Shape> two_images = {{2, 3, 8, 8}};

Layer layer(LayerKind kind, ops::Shape output) { return {"layer", kind, {0}, output}; }

TEST(Cost, OfAConvolutionIsThatOfItsProductsAndTensors) {
  const Layer conv = layer(Convolution{.out_channels = 4, .kernel = 3, .padding = 1, .bias = false}, {1, 4, 8, 8});
  constexpr std::int64_t in = 2 * 3 * 64;
  constexpr std::int64_t out = 2 * 4 * 64;
  constexpr std::int64_t weights = 4 * 3 * 9;
  constexpr std::int64_t products = 2 * out * 3 * 9;
  const Cost forward = cost(conv, two_images, ops::Pass::forward, true);
  EXPECT_EQ(forward.flops, products);
  EXPECT_EQ(forward.elements, in + out + weights);
  const Cost of_weights = cost(conv, two_images, ops::Pass::backward, false);
  EXPECT_EQ(of_weights.flops, products);
  EXPECT_EQ(of_weights.elements, in + out + weights);
  const Cost of_both = cost(conv, two_images, ops::Pass::backward, true);
  EXPECT_EQ(of_both.flops, 2 * products);
  EXPECT_EQ(of_both.elements, 2 * in + out + 2 * weights);
}

TEST(Cost, OfALinearLayerCountsEachFeature) {
  const Layer linear = layer(Linear{.out_features = 5}, {1, 5, 1, 1});
  EXPECT_EQ(cost(linear, two_images, ops::Pass::forward, true).flops, 2 * 2 * 5 * 3 * 64);
}

TEST(Cost, OfAPoolIsThatOfItsWindows) {
  const Layer pool = layer(MaxPool{}, {1, 3, 4, 4});
  const Cost forward = cost(pool, two_images, ops::Pass::forward, true);
  EXPECT_EQ(forward.flops, 2 * 3 * 16 * 4);
  EXPECT_EQ(forward.elements, 2 * 3 * (64 + 16));
}

void expect_whole_step(ops::Ops& ops, DType dtype) {
  const Network network = make_model("resnet20", {1, 3, 8, 8}, 10);
  const StepReport report = explain_step(network, ops, dtype, 2);
  const std::size_t layers = network.layers().size();
  ASSERT_EQ(report.operators.size(), 2 * layers);
  EXPECT_EQ(report.operators.front().name, "forward conv1");
  EXPECT_EQ(report.operators.back().name, "backward conv1");
  EXPECT_GT(report.limits.bytes_per_second, 0);
  EXPECT_GT(report.limits.flops_per_second, 0);
  const std::string text = to_text(report);
  for (const OperatorReport& op : report.operators) {
    EXPECT_GT(op.seconds, 0) << op.name;
    EXPECT_GT(op.bytes.value, 0) << op.name;
    EXPECT_GT(op.share_of(report.limits), 0) << op.name;
    EXPECT_FALSE(op.algorithm.empty()) << op.name;
    EXPECT_NE(text.find("\n" + op.name + " "), std::string::npos) << op.name;
  }
}

TEST(ExplainStep, ListsEveryOperatorOfTheReference) {
  const auto ops = ops::make_reference_ops();
  expect_whole_step(*ops, DType::float64);
}

TEST(ExplainStep, ListsEveryOperatorOfOneDnnWithItsKernel) {
  const auto ops = ops::make_onednn_ops(1);
  expect_whole_step(*ops, DType::float32);
  const StepReport report = explain_step(make_model("lenet", {1, 1, 8, 8}, 10), *ops, DType::float32, 2);
  EXPECT_NE(report.operators[0].algorithm, "loops") << "oneDNN names its convolutions' kernels";
  EXPECT_EQ(report.operators[0].operation, "convolution 3×3, ReLU");
}

}  // namespace
}  // namespace lockstep::nn
