// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/graph.hpp"

/// Tests values that were computed by hand, for properties that finite differences do not show.
namespace lockstep::ops::test {
namespace {

class Reference : public testing::Test {
 protected:
  std::unique_ptr<Ops> ops_ = make_reference_ops();
};

TEST_F(Reference, ConvolutionIsCrossCorrelation) {
  Graph graph(*ops_, DType::float64, {1, 1, 2, 2});
  graph.convolution(0, {.out_channels = 1, .kernel = 2, .padding = 1});
  graph.input().assign({1, 2, 3, 4});
  graph.parameters()[0]->assign({1, 10, 100, 1000});
  graph.parameters()[1]->assign({0.5});
  graph.forward();
  EXPECT_EQ(graph.output(), (Values{1000.5, 2100.5, 200.5, 3010.5, 4321.5, 402.5, 30.5, 43.5, 4.5}));
}

TEST_F(Reference, MaxPoolGivesTheGradientOfATieToTheFirst) {
  Graph graph(*ops_, DType::float64, {1, 1, 2, 2});
  graph.max_pool(0, {});
  graph.input().assign({1, 7, 7, 7});
  graph.forward();
  graph.backward();
  EXPECT_EQ(graph.output(), Values{7});
  EXPECT_EQ(graph.input_gradient(), (Values{0, std::cos(0.5), 0, 0}));
}

TEST_F(Reference, MaxPoolTakesANumberThatIsNoneForTheLargest) {
  for (const std::size_t place : {0U, 1U, 3U}) {
    Graph graph(*ops_, DType::float64, {1, 1, 2, 2});
    graph.max_pool(0, {});
    Values input = {1, 7, 8, 9};
    input[place] = std::nan("");
    graph.input().assign(input);
    graph.forward();
    graph.backward();
    EXPECT_TRUE(std::isnan(graph.output()[0])) << place;
    Values gradient(4);
    gradient[place] = std::cos(0.5);
    EXPECT_EQ(graph.input_gradient(), gradient) << place;
  }
}

TEST_F(Reference, PoolLeavesOutAWindowThatDoesNotFit) {
  Graph graph(*ops_, DType::float64, {1, 1, 3, 3});
  graph.average_pool(0, {});
  graph.input().assign({1, 2, 99, 3, 6, 99, 99, 99, 99});
  graph.forward();
  EXPECT_EQ(graph.output(), Values{3});
}

TEST_F(Reference, BatchNormTracksTheUnbiasedVariance) {
  Graph graph(*ops_, DType::float64, {2, 1, 1, 2});
  graph.batch_norm(0, {.epsilon = 1e-12, .momentum = 0.25});
  graph.input().assign({1, 3, 5, 7});  // mean 4; squares 9 + 1 + 1 + 9, so variance 5 (biased), 20/3 (unbiased)
  graph.parameters()[0]->assign({2});
  graph.parameters()[1]->assign({1});
  graph.state()[0]->assign({8});
  graph.state()[1]->assign({4});
  graph.forward();
  EXPECT_NEAR(graph.output()[0], 2 * (1 - 4) / std::sqrt(5) + 1, 1e-11);
  EXPECT_DOUBLE_EQ(graph.state()[0]->get(0), 0.75 * 8 + 0.25 * 4);
  EXPECT_DOUBLE_EQ(graph.state()[1]->get(0), 0.75 * 4 + 0.25 * 20 / 3);
}

TEST_F(Reference, BatchNormEvaluatesWithRunningStatistics) {
  Graph graph(*ops_, DType::float64, {1, 1, 1, 2});
  graph.batch_norm(0, {.epsilon = 1e-12});
  graph.input().assign({1, 9});
  graph.parameters()[0]->assign({3});
  graph.parameters()[1]->assign({0.5});
  graph.state()[0]->assign({5});
  graph.state()[1]->assign({4});
  graph.forward(false);
  EXPECT_NEAR(graph.output()[0], -5.5, 1e-11);
  EXPECT_NEAR(graph.output()[1], 6.5, 1e-11);
  EXPECT_EQ(graph.state()[0]->get(0), 5);
  EXPECT_EQ(graph.state()[1]->get(0), 4);
}

TEST_F(Reference, BatchNormOfASingleValueKeepsFiniteStatistics) {
  Graph graph(*ops_, DType::float64, {1, 1, 1, 1});
  graph.batch_norm(0, {.momentum = 0.5});
  graph.state()[1]->assign({3});
  graph.forward();
  EXPECT_EQ(graph.state()[1]->get(0), 1.5);
  EXPECT_EQ(graph.output()[0], graph.parameters()[1]->get(0));
}

/// Two samples give the same in one call and in two calls.
TEST_F(Reference, DropoutDependsOnWhereAnElementIsAndOnNothingElse) {
  constexpr std::int64_t elements = 4096;
  const auto masked = [&](std::int64_t batch, const RngKey& rng_key, std::uint64_t key) {
    const Format format = Format::plain({batch, 1, 1, elements}, DType::float64);
    const auto kernel = ops_->make(Dropout{.probability = 0.25, .key = key}, std::vector{format});
    const Values ones(static_cast<std::size_t>(batch * elements), 1);
    Values out(ones.size());
    const void* input = ones.data();
    kernel->run(Pass::forward, {.inputs = std::span(&input, 1), .output = out.data(), .rng_key = &rng_key});
    return out;
  };
  const Values both = masked(2, {.seed = 1, .step = 2, .first_sample = 6}, 3);
  const Values second = masked(1, {.seed = 1, .step = 2, .first_sample = 7}, 3);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), both.begin() + elements));
  const Values first(both.begin(), both.begin() + elements);
  for (const Values& other : {second, masked(1, {.seed = 2, .step = 2, .first_sample = 6}, 3),
                              masked(1, {.seed = 1, .step = 3, .first_sample = 6}, 3),
                              masked(1, {.seed = 1, .step = 2, .first_sample = 6}, 4)})
    EXPECT_NE(other, first);
  const auto kept = static_cast<double>(elements - std::count(first.begin(), first.end(), 0.0));
  EXPECT_NEAR(kept / elements, 0.75, 0.03);
  EXPECT_EQ(*std::max_element(first.begin(), first.end()), 1 / 0.75);
}

TEST_F(Reference, ReluKeepsNotANumber) {
  Graph graph(*ops_, DType::float64, {1, 1, 1, 2});
  graph.relu(0);
  graph.input().assign({std::nan(""), -1});
  graph.forward();
  EXPECT_TRUE(std::isnan(graph.output()[0]));
  EXPECT_EQ(graph.output()[1], 0);
}

}  // namespace
}  // namespace lockstep::ops::test
