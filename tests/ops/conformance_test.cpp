// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/graph.hpp"
#include "support/verdict.hpp"

/// Compares oneDNN in float32 and the reference in float32 with the reference in float64, for plain inputs and for
/// formats that earlier operators chose.
namespace lockstep::ops::test {
namespace {

/// The tolerance of float32 sums of a few thousand products, relative to the tensor's largest element.
constexpr double tolerance = 5e-5;
/// Values that cancel, such as the gradient of a bias before a batch norm, are below this in float64; they are compared
/// on a scale of 1.
constexpr double nothing = 1e-9;

void expect_near(const Values& actual, const Values& expected, const std::string& what, double relative = tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(actual[i] - expected[i]));
    ASSERT_FALSE(std::isnan(actual[i])) << what << " element " << i;
  }
  if (largest < nothing) largest = 1;
  EXPECT_LE(error, relative * largest) << what;
}

void expect_equal(Graph& actual, Graph& expected, const std::string& what) {
  expect_near(actual.output(), expected.output(), what + ": output");
  for (std::size_t i = 0; i < expected.state().size(); ++i) {
    expect_near(actual.state()[i]->values(), expected.state()[i]->values(), what + ": state " + std::to_string(i));
  }
}

using Build = std::function<void(Graph&, std::int64_t channels)>;

class Conformance : public testing::TestWithParam<Implementation> {
 protected:
  /// Runs one network on both, training twice (the second time with used memory) and then evaluating.
  void compare(const Shape& input, std::int64_t channels, const Build& build) {
    SCOPED_TRACE("batch " + std::to_string(input.batch) + ", channels " + std::to_string(channels));
    Graph actual(*ops_, DType::float32, input);
    Graph expected(*reference_, DType::float64, input);
    build(actual, channels);
    build(expected, channels);
    for (const char* what : {"first training", "second training"}) {
      for (Graph* graph : {&actual, &expected}) {
        graph->forward();
        graph->backward();
      }
      expect_equal(actual, expected, what);
      expect_near(actual.input_gradient(), expected.input_gradient(), "input gradient");
      for (std::size_t i = 0; i < expected.gradients().size(); ++i) {
        expect_near(actual.gradients()[i]->values(), expected.gradients()[i]->values(),
                    "gradient of parameter " + std::to_string(i));
      }
    }
    actual.forward(false);
    expected.forward(false);
    expect_equal(actual, expected, "evaluation");
  }

  void compare_all(const Build& build) {
    for (const std::int64_t channels : {1, 3, 10, 16, 17, 32, 64}) {
      for (const std::int64_t batch : {1, 3}) compare({batch, channels, 8, 8}, channels, build);
    }
  }

  std::unique_ptr<Ops> ops_ = GetParam().make();
  std::unique_ptr<Ops> reference_ = make_reference_ops();
};

/// Adds a convolution, whose result has a format of oneDNN's choice.
int chosen_format(Graph& g, std::int64_t channels) {
  return g.convolution(0, {.out_channels = channels, .padding = 1, .activation = Activation::relu});
}

TEST_P(Conformance, Convolution) {
  compare_all([](Graph& g, std::int64_t) {
    g.linear(g.convolution(0, {.out_channels = 16, .padding = 1, .activation = Activation::relu}), 4);
  });
}

TEST_P(Conformance, ConvolutionOfEveryKernelSize) {
  for (const std::int64_t kernel : {1, 2, 3, 4, 5, 7})
    for (const std::int64_t stride : {1, 2, 3})
      for (const std::int64_t channels : {1, 3, 16}) {
        SCOPED_TRACE("kernel " + std::to_string(kernel) + ", stride " + std::to_string(stride));
        compare({2, channels, 11, 9}, channels, [&](Graph& g, std::int64_t) {
          const Convolution shape{.out_channels = 8,
                                  .kernel = kernel,
                                  .stride = stride,
                                  .padding = kernel / 2,
                                  .activation = Activation::relu};
          g.linear(g.convolution(0, shape), 4);
        });
      }
}

TEST_P(Conformance, ConvolutionChained) {
  compare_all([](Graph& g, std::int64_t c) {
    const int strided =
        g.convolution(chosen_format(g, c), {.out_channels = 2 * c, .stride = 2, .padding = 1, .bias = false});
    g.linear(g.convolution(strided, {.out_channels = c, .kernel = 1, .activation = Activation::relu}), 4);
  });
}

TEST_P(Conformance, BatchNorm) {
  compare_all([](Graph& g, std::int64_t) { g.linear(g.batch_norm(0, {}), 4); });
}

class ExactSums : public Conformance {};

/// A channel has 65,536 values, as in ResNet-20's first layers, and far from 0, where float32 sums are less exact than
/// this.
TEST_P(ExactSums, InBatchNormOfManyValuesFarFromZero) {
  Graph actual(*ops_, DType::float32, {16, 4, 64, 64});
  Graph expected(*reference_, DType::float64, {16, 4, 64, 64});
  for (Graph* graph : {&actual, &expected}) {
    for (std::int64_t i = 0; i < graph->input().count(); ++i)
      graph->input().set(i, static_cast<double>(static_cast<float>(graph->input().get(i)) + 4.0F));
    graph->batch_norm(0, {});
    graph->forward();
    graph->backward();
  }
  constexpr double exact = 5e-7;
  expect_near(actual.output(), expected.output(), "output", exact);
  expect_near(actual.input_gradient(), expected.input_gradient(), "input gradient", exact);
  for (std::size_t i = 0; i < expected.state().size(); ++i)
    expect_near(actual.state()[i]->values(), expected.state()[i]->values(), "state", exact);
  for (std::size_t i = 0; i < expected.gradients().size(); ++i)
    expect_near(actual.gradients()[i]->values(), expected.gradients()[i]->values(), "gradient of a parameter");
}

TEST_P(Conformance, BatchNormReluChained) {
  compare_all([](Graph& g, std::int64_t c) {
    g.linear(g.batch_norm(chosen_format(g, c), {.activation = Activation::relu}), 4);
  });
}

TEST_P(Conformance, Relu) {
  compare_all([](Graph& g, std::int64_t) { g.linear(g.relu(0), 4); });
}

TEST_P(Conformance, ReluChained) {
  compare_all(
      [](Graph& g, std::int64_t c) { g.linear(g.relu(g.convolution(0, {.out_channels = c, .padding = 1})), 4); });
}

TEST_P(Conformance, Pools) {
  compare_all([](Graph& g, std::int64_t) {
    g.linear(g.average_pool(g.max_pool(0, {.kernel = 3, .stride = 2}), {.kernel = 2, .stride = 1}), 4);
  });
}

TEST_P(Conformance, PoolsChained) {
  compare_all([](Graph& g, std::int64_t c) {
    const int pooled = g.max_pool(chosen_format(g, c), {});
    g.linear(g.average_pool(pooled, {.kernel = 4, .stride = 4}), 4);
  });
}

TEST_P(Conformance, AddOfEqualFormats) {
  compare_all([](Graph& g, std::int64_t c) {
    const int a = chosen_format(g, c);
    const int b = g.convolution(a, {.out_channels = c, .padding = 1});
    g.linear(g.add(b, a, Activation::relu), 4);
  });
}

TEST_P(Conformance, AddOfDifferentFormats) {
  compare_all([](Graph& g, std::int64_t c) { g.linear(g.add(chosen_format(g, c), 0, Activation::none), 4); });
  compare_all([](Graph& g, std::int64_t c) { g.linear(g.add(0, chosen_format(g, c), Activation::relu), 4); });
}

TEST_P(Conformance, LinearOfMatrix) {
  compare_all(
      [](Graph& g, std::int64_t c) { g.linear(g.linear(g.batch_norm(g.linear(0, c), {}), 8, Activation::relu), 4); });
}

TEST_P(Conformance, SmallConvolutionalNetwork) {
  for (const std::int64_t batch :
       {1, 5, 26}) {  // with 26 the first linear layer takes blocks, with fewer it copies them
    compare({batch, 1, 28, 28}, 32, [](Graph& g, std::int64_t c) {
      int node = g.max_pool(g.convolution(0, {.out_channels = c, .padding = 1, .activation = Activation::relu}), {});
      node = g.convolution(node, {.out_channels = 2 * c, .padding = 1, .activation = Activation::relu});
      g.linear(g.linear(g.max_pool(node, {}), 16, Activation::relu), 10);
    });
  }
}

const Implementation one_thread{"onednn", [] { return make_onednn_ops(1); }};
const Implementation two_threads{"onednn_two_threads", [] { return make_onednn_ops(2); }};
const auto name_of = [](const auto& test) { return test.param.name; };

INSTANTIATE_TEST_SUITE_P(Ops, Conformance,
                         testing::Values(Implementation{"reference", make_reference_ops}, one_thread, two_threads),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Ops, ExactSums, testing::Values(one_thread, two_threads), name_of);

/// Some processors have no Winograd kernels; oneDNN 2.6 needs AVX-512 for them.
TEST(OneDnn, ExactBarsWinograd) {
  const auto algorithms = [](bool exact) {
    const auto ops = make_onednn_ops(1, exact);
    const Format in = Format::plain({64, 64, 16, 16}, DType::float32);
    const auto kernel = ops->make(Convolution{.out_channels = 64, .padding = 1}, std::span(&in, 1));
    return kernel->algorithm(Pass::forward) + " " + kernel->algorithm(Pass::backward);
  };
  EXPECT_EQ(algorithms(true).find("wino"), std::string::npos) << algorithms(true);
  RecordProperty("without", algorithms(false));
}

/// oneDNN alone would have the channels last, from which whatever comes before and after copies its tensors.
TEST(OneDnn, LowDepthwiseConvolutionsStayInBlocks) {
  const auto ops = make_onednn_ops(1);
  const Format image = Format::plain({2, 16, 2, 9}, DType::float32);
  const Format blocks = ops->make(Convolution{.out_channels = 64, .padding = 1}, std::span(&image, 1))->traits().output;
  if (blocks.native == nullptr) LOCKSTEP_SKIP(blocked) << "oneDNN has no blocks for such a convolution here";
  const auto kernel =
      ops->make(Convolution{.out_channels = 64, .padding = 1, .groups = 64, .bias = false}, std::span(&blocks, 1));
  EXPECT_EQ(kernel->traits().inputs[0].layout, blocks.layout);
  EXPECT_NE(kernel->algorithm(Pass::backward).find("loops"), std::string::npos) << kernel->algorithm(Pass::backward);
}

/// A linear layer copies either twice the activation, for the forward pass and its gradient, or three times the
/// weights.
TEST(OneDnn, LinearLayersCopyTheSmallerOfActivationAndWeights) {
  const auto ops = make_onednn_ops(1);
  const auto takes_blocks = [&](std::int64_t batch) {
    const Format image = Format::plain({batch, 16, 8, 8}, DType::float32);
    const Format blocks = ops->make(Convolution{.out_channels = 64}, std::span(&image, 1))->traits().output;
    EXPECT_NE(blocks.native, nullptr);
    return ops->make(Linear{.out_features = 16}, std::span(&blocks, 1))->traits().inputs[0].native != nullptr;
  };
  EXPECT_FALSE(takes_blocks(23));
  EXPECT_TRUE(takes_blocks(24));
}

}  // namespace
}  // namespace lockstep::ops::test
