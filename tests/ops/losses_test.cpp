// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "ops/libraries.hpp"
#include "ops/loss_trial.hpp"

/// Tests what the rows of the table do not show: LossSums and special cases.
namespace lockstep::ops::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

using Floats = std::vector<float>;

TEST(CrossEntropyOfWeightedClasses, WeighsItsTargetsClasses) {
  const Shape logits{1, 3, 1, 4};
  LossTrial trial(CrossEntropy{.ignore_index = 9, .class_weights = {0.5, 4, 0}},
                  {{logits, {5, 0, 0, nan, 0, 5, 0, nan, 0, 0, 5, nan}}, {{1, 1, 1, 4}, {}, {0, 0, 9, 2}}});
  trial.forget(0);
  EXPECT_EQ(trial.run(Pass::normalizer).weight, 1);
  LossTrial again(CrossEntropy{.ignore_index = 9, .class_weights = {0.5, 4, 0}},
                  {{logits, {5, 0, 0, nan, 0, 5, 0, nan, 0, 0, 5, nan}}, {{1, 1, 1, 4}, {}, {0, 0, 9, 2}}});
  const LossSums loss_sums = again.run(Pass::forward);
  EXPECT_EQ(loss_sums.weight, 1);
  EXPECT_EQ(loss_sums.correct, 0.5);
  EXPECT_NEAR(loss_sums.loss, 0.5 * (2 * std::log(std::exp(5) + 2) - 5), 1e-5);
  const Floats gradient = again.backward(0);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(gradient[c * 4 + 2], 0) << "ignored";
    EXPECT_EQ(gradient[c * 4 + 3], 0) << "of a class that weighs nothing";
  }
}

TEST(CrossEntropyOfWeightedClasses, ReportsALabelThatIsNoClassBeforeItsWeightIsLookedUp) {
  LossTrial trial(CrossEntropy{.class_weights = {1, 1}}, {{{1, 2}, {0, 0}}, {{1, 1}, {}, {2}}});
  EXPECT_EQ(trial.run(Pass::normalizer).weight, 0);
  EXPECT_EQ(trial.fault(), "label of sample 0 is 2; there are 2 classes, numbered from 0");
}

TEST(CrossEntropy, ReportsTheFirstLabelThatIsNoClassAndCountsTheOthers) {
  const Shape logits{2, 3, 1, 3};
  const Floats values{1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 1, 0, 4, 4, 4, 0, 0, 5};
  LossTrial trial(CrossEntropy{}, {{logits, values}, {{2, 1, 1, 3}, {}, {2, 0, -100, 1, 7, -3}}});
  const LossSums loss_sums = trial.run(Pass::forward);
  EXPECT_EQ(loss_sums.weight, 3);
  EXPECT_EQ(loss_sums.correct, 2);
  EXPECT_EQ(trial.fault(), "label of sample 1 is 7; there are 3 classes, numbered from 0");
  const Floats gradient = trial.backward(0);
  for (const std::size_t bad : {2U, 10U, 11U})
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(gradient[bad + 3 * c], 0);
  EXPECT_NE(gradient[9], 0);
}

TEST(SoftCrossEntropy, OfOneHotTargetsIsCrossEntropy) {
  const Floats logits{1, -2, 0.5F, 3, 0, 1};
  for (const double smoothing : {0.0, 0.5}) {
    LossTrial soft(SoftCrossEntropy{.label_smoothing = smoothing}, {{{2, 3}, logits}, {{2, 3}, {0, 1, 0, 1, 0, 0}}});
    LossTrial hard(CrossEntropy{.label_smoothing = smoothing}, {{{2, 3}, logits}, {{2, 1}, {}, {1, 0}}});
    EXPECT_EQ(soft.run(Pass::normalizer).weight, 2);
    EXPECT_NEAR(soft.run(Pass::forward).loss, hard.run(Pass::forward).loss, 1e-6);
    EXPECT_EQ(soft.run(Pass::infer).correct, 1);
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(soft.backward(0)[i], hard.backward(0)[i], 1e-6F);
  }
}

TEST(SoftCrossEntropy, TakesNoProbabilityOfWhatIsImpossible) {
  LossTrial trial(SoftCrossEntropy{}, {{{1, 3}, {0, -infinity, 0}}, {{1, 3}, {0.5F, 0, 0.5F}}});
  EXPECT_NEAR(trial.run(Pass::forward).loss, std::log(2), 1e-6);
  EXPECT_EQ(trial.backward(0), (Floats{0, 0, 0}));
}

TEST(BinaryCrossEntropy, IsExactForLargeLogits) {
  const Shape shape{1, 1, 1, 4};
  LossTrial trial(BinaryCrossEntropy{}, {{shape, {1000, -1000, 1000, -30}}, {shape, {0, 1, 1, 0}}});
  EXPECT_NEAR(trial.run(Pass::forward).loss, 2000 + std::exp(-30.0), 1e-9);
  const Floats gradient = trial.backward(0);
  EXPECT_EQ(gradient[0], 1);
  EXPECT_EQ(gradient[1], -1);
  EXPECT_EQ(gradient[2], 0);
  EXPECT_NEAR(gradient[3] / std::exp(-30.0), 1, 1e-6);
}

TEST(BinaryCrossEntropy, CountsWhatIsRightByItsWeight) {
  const Shape shape{1, 1, 1, 4};
  LossTrial trial(BinaryCrossEntropy{}, {{shape, {1, -1, 0, nan}}, {shape, {1, 1, 0.5F, 1}}, {shape, {2, 3, 0.5F, 0}}});
  trial.forget(0);
  EXPECT_EQ(trial.run(Pass::normalizer).weight, 5.5);
  LossTrial again(BinaryCrossEntropy{}, {{shape, {1, -1, 0, nan}}, {shape, {1, 1, 0.5F, 1}}, {shape, {2, 3, 0.5F, 0}}});
  const LossSums loss_sums = again.run(Pass::forward);
  EXPECT_EQ(loss_sums.weight, 5.5);
  EXPECT_EQ(loss_sums.correct, 2.5);
  EXPECT_NEAR(loss_sums.loss, 5 * std::log1p(std::exp(-1.0)) + 3 + 0.5 * std::log(2), 1e-6);
  EXPECT_EQ(again.backward(0)[3], 0) << "without weight, of no number";
}

TEST(BinaryCrossEntropy, RefusesToBeNormalizedByWeightsThatAreNotThereYet) {
  const Shape shape{1, 1, 1, 2};
  LossTrial trial(BinaryCrossEntropy{}, {{shape, {1, 1}}, {shape, {1, 1}}, {shape, {1, 1}}});
  trial.forget(2);
  EXPECT_THROW(trial.run(Pass::normalizer), Error);
}

TEST(SmoothL1, HasNoSlopeWhereThereIsNoDifference) {
  for (const double beta : {0.0, 2.0}) {
    const Shape shape{1, 1, 1, 4};
    LossTrial trial(SmoothL1{.beta = beta}, {{shape, {3, 1, 5, nan}}, {shape, {3, 4, 1, 1}}});
    EXPECT_EQ(trial.run(Pass::normalizer).weight, 4);
    const Floats gradient = trial.backward(0);
    EXPECT_EQ(gradient[0], 0);
    EXPECT_EQ(gradient[1], -1);
    EXPECT_EQ(gradient[2], 1);
    EXPECT_TRUE(std::isnan(gradient[3]));
  }
}

TEST(Giou, IsFiniteForBoxesOfNoArea) {
  // The boxes are two equal points, two distant points, a line in a box, and a prediction whose corners are swapped.
  const Shape shape{1, 4, 1, 4};
  LossTrial trial(Giou{}, {{shape, {1, 0, 1, 3, 1, 0, 1, 3, 1, 0, 2, 1, 1, 0, 1, 1}},
                           {shape, {1, 2, 0, 1, 1, 2, 0, 1, 1, 2, 4, 3, 1, 2, 4, 3}}});
  EXPECT_EQ(trial.run(Pass::normalizer).weight, 4);
  EXPECT_TRUE(std::isfinite(trial.run(Pass::forward).loss));
  for (const std::size_t input : {0U, 1U}) {
    for (const float element : trial.backward(input)) EXPECT_TRUE(std::isfinite(element));
  }
}

TEST(Giou, OfEqualBoxesIsZeroAndOfDistantOnesGoesToTwo) {
  const Shape shape{1, 4, 1, 1};
  LossTrial equal(Giou{}, {{shape, {1, 2, 3, 5}}, {shape, {1, 2, 3, 5}}});
  EXPECT_NEAR(equal.run(Pass::forward).loss, 0, 1e-6);
  LossTrial distant(Giou{}, {{shape, {0, 0, 1, 1}}, {shape, {999, 999, 1000, 1000}}, {{1, 1}, {3}}});
  const LossSums loss_sums = distant.run(Pass::forward);
  EXPECT_EQ(loss_sums.weight, 3);
  EXPECT_NEAR(loss_sums.loss, 3 * (2 - 2e-6), 1e-6);
  LossTrial weightless(Giou{}, {{shape, {nan, 0, 1, 1}}, {shape, {0, 0, 1, 1}}, {{1, 1}, {0}}});
  EXPECT_EQ(weightless.run(Pass::forward).loss, 0);
  EXPECT_EQ(weightless.backward(0), (Floats{0, 0, 0, 0}));
}

TEST(Dice, IsZeroForWhatIsRightAndOneForWhatIsWrong) {
  const Shape shape{2, 1, 2, 2};
  LossTrial trial(Dice{.epsilon = 1e-6},
                  {{shape, {99, 99, -99, -99, 99, 99, -99, -99}}, {shape, {1, 1, 0, 0, 0, 0, 1, 1}}});
  EXPECT_EQ(trial.run(Pass::normalizer).weight, 2);
  EXPECT_NEAR(trial.run(Pass::infer).loss, 1, 1e-6);
}

TEST(Dice, ByLabelIsThatOfPlanesWithoutThePixelsThatAreLeftOut) {
  const Floats logits{1, -2, 0.5F, 0, 3, 0, 1, -1};
  LossTrial by_label(Dice{.by_label = true, .ignore_index = 9},
                     {{{1, 2, 1, 4}, logits}, {{1, 1, 1, 4}, {}, {1, 0, 9, 0}}});
  LossTrial planes(Dice{}, {{{1, 2, 1, 3}, {1, -2, 0, 3, 0, -1}}, {{1, 2, 1, 3}, {0, 1, 1, 1, 0, 0}}});
  EXPECT_EQ(by_label.run(Pass::normalizer).weight, 2);
  EXPECT_NEAR(by_label.run(Pass::infer).loss, planes.run(Pass::infer).loss, 1e-6);
  const Floats found = by_label.backward(0);
  const Floats expected = planes.backward(0);
  for (std::size_t plane = 0; plane < 2; ++plane) {
    EXPECT_EQ(found[plane * 4 + 2], 0);
    for (const auto& [pixel, of_planes] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 1}, {3, 2}})
      EXPECT_NEAR(found[plane * 4 + pixel], expected[plane * 3 + of_planes], 1e-7F) << plane << ' ' << pixel;
  }
}

TEST(Dice, ByLabelReportsTheFirstLabelThatIsNoClass) {
  LossTrial trial(Dice{.by_label = true}, {{{2, 2, 1, 2}, Floats(8)}, {{2, 1, 1, 2}, {}, {0, -100, 2, -1}}});
  EXPECT_EQ(trial.run(Pass::forward).weight, 4);
  EXPECT_EQ(trial.fault(), "label of sample 1 is 2; there are 2 classes, numbered from 0");
}

TEST(Losses, OfAnEmptyBatchAreZero) {
  const Shape none{0, 4, 1, 3};
  const std::vector<std::pair<Operator, std::vector<Shape>>> losses{{SoftCrossEntropy{}, {none, none}},
                                                                    {BinaryCrossEntropy{}, {none, none, none}},
                                                                    {SmoothL1{}, {none, none, none}},
                                                                    {Giou{}, {none, none, {0, 1, 1, 3}}},
                                                                    {Dice{}, {none, none}}};
  for (const auto& [op, shapes] : losses) {
    std::vector<Format> formats;
    for (const Shape& shape : shapes) formats.push_back(Format::plain(shape, DType::float32));
    const auto ops = std::move(libraries().front());
    const auto kernel = ops->make(op, formats);
    const std::vector<const void*> inputs(shapes.size());
    const std::vector<void*> gradients(shapes.size());
    for (const Pass pass : {Pass::normalizer, Pass::infer, Pass::forward}) {
      LossSums loss_sums;
      kernel->run(pass, {.inputs = inputs, .output = &loss_sums});
      EXPECT_EQ(loss_sums.weight, 0) << text_of(op);
      EXPECT_EQ(loss_sums.loss, 0) << text_of(op);
    }
    double factor = 1;
    kernel->run(Pass::backward, {.inputs = inputs, .output_gradient = &factor, .input_gradients = gradients});
  }
}

}  // namespace
}  // namespace lockstep::ops::test
