// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "lockstep/ops/reference.hpp"
#include "ops/graph.hpp"

/// Compares every reference operator with central differences in float64.
namespace lockstep::ops::test {
namespace {

constexpr double step = 1e-5;
constexpr double gradient_tolerance = 1e-7;

/// Changes one value up and down and expects the slope of the objective to be `analytic`.
void expect_slope(Graph& graph, Tensor& tensor, std::int64_t i, double analytic, const std::string& what) {
  const double value = tensor.get(i);
  tensor.set(i, value + step);
  graph.forward();
  const double above = graph.objective();
  tensor.set(i, value - step);
  graph.forward();
  const double below = graph.objective();
  tensor.set(i, value);
  EXPECT_NEAR((above - below) / (2 * step), analytic, gradient_tolerance * std::max(1.0, std::abs(analytic)))
      << what << " element " << i;
}

void expect_gradients(Graph& graph) {
  graph.forward();
  graph.backward();
  const Values input_gradient = graph.input_gradient();
  for (std::int64_t i = 0; i < graph.input().count(); ++i) {
    expect_slope(graph, graph.input(), i, input_gradient[static_cast<std::size_t>(i)], "input");
  }
  for (std::size_t p = 0; p < graph.parameters().size(); ++p) {
    for (std::int64_t i = 0; i < graph.parameters()[p]->count(); ++i) {
      expect_slope(graph, *graph.parameters()[p], i, graph.gradients()[p]->get(i), "parameter " + std::to_string(p));
    }
  }
}

struct Case {
  std::string name;
  Shape input;
  std::function<void(Graph&)> build;
};

class Gradient : public testing::TestWithParam<Case> {};

TEST_P(Gradient, EqualsCentralDifferences) {
  const auto ops = make_reference_ops();
  Graph graph(*ops, DType::float64, GetParam().input);
  GetParam().build(graph);
  expect_gradients(graph);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> result{
      {"Convolution", {2, 3, 5, 4}, [](Graph& g) { g.convolution(0, {.out_channels = 5, .kernel = 3}); }},
      {"ConvolutionPadded", {2, 2, 4, 5}, [](Graph& g) { g.convolution(0, {.out_channels = 3, .padding = 1}); }},
      {"ConvolutionPaddedMoreThanItsKernel",
       {1, 2, 3, 3},
       [](Graph& g) { g.convolution(0, {.out_channels = 2, .kernel = 2, .padding = 3}); }},
      {"ConvolutionStrided",
       {2, 2, 7, 6},
       [](Graph& g) { g.convolution(0, {.out_channels = 3, .stride = 2, .padding = 1, .bias = false}); }},
      {"ConvolutionOneByOneStrided",
       {2, 3, 5, 5},
       [](Graph& g) { g.convolution(0, {.out_channels = 4, .kernel = 1, .stride = 2}); }},
      {"ConvolutionRelu",
       {2, 2, 4, 4},
       [](Graph& g) { g.convolution(0, {.out_channels = 3, .padding = 1, .activation = Activation::relu}); }},
      {"BatchNorm", {3, 4, 3, 2}, [](Graph& g) { g.batch_norm(0, {}); }},
      {"BatchNormRelu", {3, 4, 3, 2}, [](Graph& g) { g.batch_norm(0, {.activation = Activation::relu}); }},
      {"Relu", {2, 3, 4, 4}, [](Graph& g) { g.relu(0); }},
      {"MaxPool", {2, 3, 4, 6}, [](Graph& g) { g.max_pool(0, {}); }},
      {"MaxPoolOverlapping", {2, 2, 5, 6}, [](Graph& g) { g.max_pool(0, {.kernel = 3, .stride = 2}); }},
      {"MaxPoolWindowLeftOut", {1, 2, 5, 7}, [](Graph& g) { g.max_pool(0, {}); }},
      {"AveragePool", {2, 3, 4, 6}, [](Graph& g) { g.average_pool(0, {}); }},
      {"AveragePoolOverlapping", {2, 2, 5, 6}, [](Graph& g) { g.average_pool(0, {.kernel = 3, .stride = 1}); }},
      {"Linear", {3, 2, 2, 3}, [](Graph& g) { g.linear(0, 5); }},
      {"LinearRelu", {3, 7, 1, 1}, [](Graph& g) { g.linear(0, 6, Activation::relu); }},
      {"AddBoth", {2, 3, 3, 3}, [](Graph& g) { g.add(0, g.relu(0), Activation::none); }},
      {"AddRelu",
       {2, 3, 3, 3},
       [](Graph& g) { g.add(g.convolution(0, {.out_channels = 3, .padding = 1}), 0, Activation::relu); }},
      {"AddToItself", {2, 3, 3, 3}, [](Graph& g) { g.add(0, 0, Activation::relu); }},
  };
  return result;
}

INSTANTIATE_TEST_SUITE_P(Reference, Gradient, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(LossGradient, EqualsCentralDifferences) {
  const auto ops = make_reference_ops();
  std::mt19937_64 random(3);
  const Shape shape{2, 5, 1, 2};
  Tensor logits(shape.count(), DType::float64);
  Tensor gradient(shape.count(), DType::float64);
  logits.fill(random, -2, 2);
  const std::vector<std::int32_t> labels{0, 4, -100, 2};
  const auto loss = ops->make(
      CrossEntropy{}, std::vector{Format::plain(shape, DType::float64), Format::plain({2, 1, 1, 2}, DType::int32)});
  const std::vector<const void*> inputs{logits.data(), labels.data()};
  const std::vector<void*> gradients{gradient.data(), nullptr};
  const auto value = [&] {
    LossSums loss_sums;
    loss->run(Pass::forward, {.inputs = inputs, .output = &loss_sums});
    return loss_sums.loss;
  };
  double factor = 0.25;
  loss->run(Pass::backward, {.inputs = inputs, .output_gradient = &factor, .input_gradients = gradients});
  for (std::int64_t i = 0; i < logits.count(); ++i) {
    const double at = logits.get(i);
    logits.set(i, at + step);
    const double above = value();
    logits.set(i, at - step);
    const double below = value();
    logits.set(i, at);
    EXPECT_NEAR(factor * (above - below) / (2 * step), gradient.get(i), gradient_tolerance) << "logit " << i;
  }
}

}  // namespace
}  // namespace lockstep::ops::test
