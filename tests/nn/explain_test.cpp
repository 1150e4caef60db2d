// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/explain.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/wrapped.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"

namespace lockstep::nn {
namespace {

/// The shape of 2 images with 3 channels, 8×8.
const std::vector<ops::Shape> two_images = {{2, 3, 8, 8}};

TEST(Cost, OfAConvolutionIsThatOfItsProductsAndTensors) {
  const Convolution conv{.out_channels = 4, .kernel = 3, .padding = 1, .bias = false};
  constexpr std::int64_t in = 2 * 3 * 64;
  constexpr std::int64_t out = 2 * 4 * 64;
  constexpr std::int64_t weights = 4 * 3 * 9;
  constexpr std::int64_t products = 2 * out * 3 * 9;
  const ops::Signature signature = conv.signature(two_images);
  EXPECT_EQ(signature.forward.flops, products);
  EXPECT_EQ(signature.forward.elements, in + out + weights);
  EXPECT_EQ(signature.backward.flops, products);
  EXPECT_EQ(signature.backward.elements, in + out + weights);
  EXPECT_EQ(signature.backward_inputs.flops, products);
  EXPECT_EQ(signature.backward_inputs.elements, in + weights);
}

TEST(Cost, OfALinearLayerCountsEachFeature) {
  EXPECT_EQ(Linear{.out_features = 5}.signature(two_images).forward.flops, 2 * 2 * 5 * 3 * 64);
}

TEST(Cost, OfAPoolIsThatOfItsWindows) {
  const ops::Signature signature = MaxPool{}.signature(two_images);
  EXPECT_EQ(signature.forward.flops, 2 * 3 * 16 * 4);
  EXPECT_EQ(signature.forward.elements, 2 * 3 * (64 + 16));
}

void expect_whole_step(ops::Ops& ops, DType dtype) {
  const Graph network = make_model("resnet20", DataSpec::of_images(3, 8, 8, 10));
  const StepReport report = explain_step(network, ops, dtype, 2);
  // The list has forward and backward of each operator, and the recomputations.
  std::size_t sums = 0;
  std::size_t recomputed = 0;
  std::size_t reorders = 0;  // none, except where oneDNN's formats differ between operators on this processor
  for (const OperatorReport& op : report.operators) {
    sums += op.name.starts_with("add gradients of ") ? 1 : 0;
    recomputed += op.name.starts_with("recompute ") ? 1 : 0;
    reorders += op.operation == "reorder" ? 1 : 0;
  }
  EXPECT_EQ(sums, 0U) << "batch norms take both terms";
  EXPECT_GE(recomputed, 9U) << "one in each block, and the first result, unless another format of it is kept";
  EXPECT_LE(recomputed, 10U);
  const std::size_t nodes = fuse_activations(fuse_additions(network)).nodes().size();
  ASSERT_EQ(report.operators.size(), 2 * nodes + recomputed + reorders + 1);
  EXPECT_EQ(report.operators.front().name, "forward conv1");
  EXPECT_EQ(report.operators[report.operators.size() - 2].name, "backward conv1");
  EXPECT_EQ(report.operators.back().name, "update");
  EXPECT_GT(report.limits.bytes_per_second, 0);
  EXPECT_GT(report.limits.flops_per_second, 0);
  EXPECT_GT(report.activations.value, 0);
  const std::string text = to_text(report);
  EXPECT_NE(text.find(" MiB for 2 samples."), std::string::npos) << text;
  for (const OperatorReport& op : report.operators) {
    EXPECT_GT(op.seconds, 0) << op.name;
    EXPECT_GT(op.bytes.value, 0) << op.name;
    EXPECT_GT(op.share_of(report.limits), 0) << op.name;
    EXPECT_FALSE(op.algorithm.empty()) << op.name;
    EXPECT_NE(text.find("\n" + op.name + " "), std::string::npos) << op.name;
  }
}

OperatorReport report_of(const std::string& name, double seconds) {
  return {.name = name,
          .operation = "convolution 3×3, batch norm over 32 shards, sum, ReLU",
          .result = "64×32×28×28 nChw16c",
          .algorithm = "jit:avx512_core_amx_int8_and_a_half, weights reordered before, rounded to bfloat16",
          .bytes = {std::int64_t{1} << 30},
          .flops = 1'000'000'000,
          .seconds = seconds};
}

TEST(ExplainStep, TablesFitTheirColumns) {
  const StepReport report{.limits = {.bytes_per_second = 1e10, .flops_per_second = 1e11},
                          .operators = {report_of("forward layer1.0.downsample.0", 0.2), report_of("update", 0.01)}};
  for (const std::size_t columns : {80, 100}) {
    std::istringstream lines(to_text(report, columns));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), columns) << line;
  }
}

TEST(ExplainStep, PercentagesAboveAHundredExplainThemselves) {
  const ops::MachineLimits limits{.bytes_per_second = 1e10, .flops_per_second = 1e11};
  const std::string above = to_text({.limits = limits, .operators = {report_of("slow", 0.2), report_of("fast", 0.01)}});
  EXPECT_NE(above.find(" 1074 % *\n"), std::string::npos) << above;
  EXPECT_NE(above.find("* Above 100 %: its tensors stayed in caches"), std::string::npos) << above;
  const std::string below = to_text({.limits = limits, .operators = {report_of("slow", 0.2)}});
  EXPECT_NE(below.find(" 54 %\n"), std::string::npos) << below;
  EXPECT_EQ(below.find('*'), std::string::npos) << below;
}

TEST(ExplainStep, ListsEveryOperatorOfTheReference) {
  const auto ops = ops::make_reference_ops();
  expect_whole_step(*ops, DType::float64);
}

TEST(ExplainStep, ListsEveryOperatorOfOneDnnWithItsKernel) {
  const auto ops = ops::make_onednn_ops(1);
  expect_whole_step(*ops, DType::float32);
  const StepReport report =
      explain_step(make_model("lenet", DataSpec::of_images(1, 8, 8, 10)), *ops, DType::float32, 2);
  EXPECT_NE(report.operators[0].algorithm, "loops") << "oneDNN names its convolutions' kernels";
  EXPECT_EQ(report.operators[0].operation, "convolution 3×3");
  EXPECT_EQ(report.operators[1].operation, "max pool 2×2, stride 2, ReLU");
}

}  // namespace
}  // namespace lockstep::nn
