// SPDX-License-Identifier: Apache-2.0
// What the rows of the table do not show of detectors with anchors: which cells a box matches, and special cases.
#include "ops/formulas/anchors.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/libraries.hpp"
#include "ops/loss_trial.hpp"

namespace lockstep::ops::test {
namespace {

using enum AnchorLoss::Part;
using Floats = std::vector<float>;
using Numbers = std::array<float, 5>;  ///< class, center, extents

constexpr std::int64_t cells = 16;  ///< of a map of 4 × 4 for an image of 32 × 32 pixels
const Numbers no_box{-1, 0, 0, 0, 0};

LossTrial::Input boxes_input(const std::vector<std::vector<Numbers>>& samples) {
  const std::size_t boxes = samples.front().size();
  Floats values;
  for (const auto& sample : samples)
    for (std::size_t k = 0; k < 5; ++k)
      for (const Numbers& one : sample) values.push_back(one[k]);
  return {{std::ssize(samples), 5, 1, static_cast<std::int64_t>(boxes)}, values};
}

/// A loss with one anchor of 8 × 8 pixels on maps with 2 classes.
LossTrial trial_of(AnchorLoss::Part part, const Floats& map, const std::vector<std::vector<Numbers>>& samples,
                   double smoothing = 0) {
  const Shape shape{std::ssize(samples), 7, 4, 4};
  return {AnchorLoss{.part = part, .anchors = {{8, 8}}, .label_smoothing = smoothing},
          {{shape, map}, boxes_input(samples)}};
}

Floats map_of(std::int64_t samples, float value = 0) {
  return Floats(static_cast<std::size_t>(samples * 7 * cells), value);
}

/// Smooth numbers without a pattern.
Floats waves(std::int64_t samples) {
  Floats map = map_of(samples);
  for (std::size_t i = 0; i < map.size(); ++i)
    map[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i * i % 91)));
  return map;
}

/// Returns the number of matches by the pass that sees targets only.
double matches(const std::vector<Numbers>& boxes) {
  LossTrial trial = trial_of(box, map_of(1), {boxes});
  trial.forget(0);
  return trial.run(Pass::normalizer).weight;
}

TEST(AnchorLoss, MatchesTheCellOfTheCenterAndItsNearestNeighborsInsideOfTheMap) {
  const auto at = [](float x, float y) { return std::vector<Numbers>{{0, x, y, 8, 8}}; };
  EXPECT_EQ(matches(at(12, 12)), 1) << "the middle of a cell";
  EXPECT_EQ(matches(at(10, 12)), 2) << "its left part";
  EXPECT_EQ(matches(at(14, 12)), 2) << "its right part";
  EXPECT_EQ(matches(at(12, 10)), 2) << "its upper part";
  EXPECT_EQ(matches(at(12, 14)), 2) << "its lower part";
  EXPECT_EQ(matches(at(10, 14)), 3);
  EXPECT_EQ(matches(at(2, 2)), 1) << "there is nothing to the left or above";
  EXPECT_EQ(matches(at(30, 30)), 1) << "there is nothing to the right or below";
  EXPECT_EQ(matches(at(8, 12)), 1) << "one cell from the left edge, and not more";
  EXPECT_EQ(matches(at(16, 12)), 2) << "on the border between two cells: the left one";
  EXPECT_EQ(matches(at(32, 12)), 2) << "on the right edge: the last cell and the one before it";
  EXPECT_EQ(matches({{0, 12, 12, 8, 8}, no_box, {1, 20, 22, 8, 8}}), 3);
}

TEST(AnchorLoss, MatchesAnchorsOfSimilarExtents) {
  const auto of = [](float width, float height) { return std::vector<Numbers>{{0, 12, 12, width, height}}; };
  EXPECT_EQ(matches(of(31.9F, 8)), 1);
  EXPECT_EQ(matches(of(32, 8)), 0) << "four times as wide";
  EXPECT_EQ(matches(of(2.1F, 8)), 1);
  EXPECT_EQ(matches(of(2, 8)), 0);
  EXPECT_EQ(matches(of(8, 31.9F)), 1);
  EXPECT_EQ(matches(of(8, 32)), 0);
  EXPECT_EQ(matches(of(8, 2)), 0);
  EXPECT_EQ(matches(of(0, 0)), 0);
  EXPECT_EQ(matches({no_box}), 0);
}

/// The places of a map whose gradient is not 0.
std::vector<std::size_t> places_of(const Floats& gradient) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < gradient.size(); ++i)
    if (gradient[i] != 0) places.push_back(i);
  return places;
}

TEST(AnchorLoss, HasGradientsOfTheMatchedCellsOnly) {
  const std::vector<std::vector<Numbers>> samples{{no_box}, {{1, 10, 14, 9, 7}}};
  const std::vector<std::size_t> matched{4, 5, 9};  // cells of rows 1 and 2
  std::vector<std::size_t> of_box;
  std::vector<std::size_t> of_classes;
  std::vector<std::size_t> of_objectness;
  for (std::size_t k = 0; k < 7; ++k)
    for (const std::size_t cell : matched) (k < 4 ? of_box : of_classes).push_back((7 + k) * cells + cell);
  of_classes.erase(of_classes.begin(), of_classes.begin() + 3);  // those of the objectness
  for (const std::size_t sample : {0U, 1U})
    for (std::size_t cell = 0; cell < cells; ++cell) of_objectness.push_back((7 * sample + 4) * cells + cell);
  EXPECT_EQ(places_of(trial_of(box, waves(2), samples).backward(0)), of_box);
  EXPECT_EQ(places_of(trial_of(classes, waves(2), samples).backward(0)), of_classes);
  EXPECT_EQ(places_of(trial_of(objectness, waves(2), samples).backward(0)), of_objectness);
}

TEST(AnchorLoss, WithoutAMatchIsZeroWhateverTheMapHas) {
  const Floats bad = map_of(2, std::numeric_limits<float>::quiet_NaN());
  for (const auto part : {box, classes}) {
    LossTrial trial = trial_of(part, bad, {{no_box, no_box}, {no_box, {0, 12, 12, 40, 8}}});
    EXPECT_EQ(trial.run(Pass::normalizer).weight, 0);
    const LossSums sums = trial.run(Pass::forward);
    EXPECT_EQ(sums.weight, 0);
    EXPECT_EQ(sums.loss, 0);
    EXPECT_TRUE(places_of(trial.backward(0)).empty());
  }
  LossTrial every = trial_of(objectness, map_of(2), {{no_box}, {no_box}});
  EXPECT_EQ(every.run(Pass::normalizer).weight, 32);
  EXPECT_NEAR(every.run(Pass::forward).loss, 32 * std::log(2.0), 1e-5);
}

/// With a factor of 0, which a term without weight has, nothing is added even to what is not finite.
TEST(AnchorLoss, OfWeightZeroHasGradientsOfZero) {
  for (const auto part : {box, objectness, classes}) {
    LossTrial trial = trial_of(part, map_of(1, std::numeric_limits<float>::infinity()), {{{0, 12, 12, 8, 8}}});
    EXPECT_TRUE(places_of(trial.backward(0, 0)).empty());
  }
}

/// Logits 0 predict the middle of a cell and the anchor itself.
TEST(AnchorLoss, OfARightPredictionIsZero) {
  const std::vector<std::vector<Numbers>> samples{{{1, 20, 12, 8, 8}}};
  LossTrial boxes = trial_of(box, map_of(1), samples);
  const LossSums sums = boxes.run(Pass::infer);
  EXPECT_NEAR(sums.loss, 0, 1e-6);
  EXPECT_EQ(sums.correct, 1);
  Floats map = map_of(1, -30);
  const std::size_t cell = 1 * 4 + 2;
  for (std::size_t k = 0; k < 4; ++k) map[k * cells + cell] = 0;
  map[4 * cells + cell] = 30;
  map[6 * cells + cell] = 30;
  EXPECT_NEAR(trial_of(objectness, map, samples).run(Pass::forward).loss, 0, 1e-4);
  EXPECT_EQ(trial_of(objectness, map, samples).run(Pass::forward).correct, 16);
  EXPECT_NEAR(trial_of(classes, map, samples).run(Pass::forward).loss, 0, 1e-6);
  EXPECT_EQ(trial_of(classes, map, samples).run(Pass::forward).correct, 2);
  EXPECT_NEAR(trial_of(classes, map, samples, 0.1).run(Pass::forward).loss, 2 * 0.05 * 30, 1e-4)
      << "both targets are 0.05 from the prediction";
}

TEST(AnchorLoss, OfSeveralBoxesInACellTakesTheLargestOverlapAndCountsEachMatch) {
  const Numbers near{0, 20, 12, 9, 9};
  const Numbers far{1, 20.5F, 12, 5, 16};
  const auto of = [](AnchorLoss::Part part, const std::vector<Numbers>& boxes) {
    return trial_of(part, waves(1), {boxes});
  };
  for (const std::vector<Numbers>& both : {std::vector<Numbers>{near, far}, {far, near}}) {
    const LossSums sums = of(objectness, both).run(Pass::forward);
    EXPECT_NE(of(objectness, {far}).run(Pass::forward).loss, of(objectness, {near}).run(Pass::forward).loss);
    const double best =
        std::min(of(objectness, {near}).backward(0)[4 * cells + 6], of(objectness, {far}).backward(0)[4 * cells + 6]);
    EXPECT_EQ(of(objectness, both).backward(0)[4 * cells + 6], best) << "the larger the target, the smaller the slope";
    EXPECT_EQ(sums.weight, 16);
    for (const auto part : {box, classes}) {
      const LossSums one = of(part, {near}).run(Pass::forward);
      const LossSums other = of(part, {far}).run(Pass::forward);
      const LossSums together = of(part, both).run(Pass::forward);
      EXPECT_EQ(together.weight, one.weight + other.weight);
      EXPECT_NEAR(together.loss, one.loss + other.loss, 1e-12);
      const Floats first = of(part, {near}).backward(0);
      const Floats second = of(part, {far}).backward(0);
      const Floats gradient = of(part, both).backward(0);
      for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], first[i] + second[i], 1e-6);
    }
  }
}

/// So gradients have the same bits however samples are divided among ranks.
TEST(AnchorLoss, OfASampleDoesNotDependOnOthers) {
  const std::vector<Numbers> first{{0, 10, 14, 9, 7}, {1, 11, 13, 6, 8}};
  const std::vector<Numbers> second{{1, 25, 9, 4, 12}, no_box};
  const Floats map = waves(2);
  const auto middle = map.begin() + 7 * cells;
  for (const auto part : {box, objectness, classes}) {
    Floats apart = trial_of(part, {map.begin(), middle}, {first}).backward(0, 0.37);
    const Floats rest = trial_of(part, {middle, map.end()}, {second}).backward(0, 0.37);
    apart.insert(apart.end(), rest.begin(), rest.end());
    EXPECT_EQ(trial_of(part, map, {first, second}).backward(0, 0.37), apart);
  }
}

TEST(AnchorLoss, ReportsTheFirstBoxOfAClassThatDoesNotExistAndLeavesItOut) {
  for (const auto part : {box, classes}) {
    LossTrial trial = trial_of(part, waves(2), {{{0, 12, 12, 8, 8}, no_box}, {{2, 12, 12, 8, 8}, {5, 12, 12, 8, 8}}});
    const double each = part == box ? 1 : 2;
    EXPECT_EQ(trial.run(Pass::normalizer).weight, each);
    EXPECT_EQ(trial.run(Pass::forward).weight, each);
    EXPECT_EQ(trial.fault(), "label of sample 1 is 2; there are 2 classes, numbered from 0");
  }
}

TEST(AnchorLoss, OfASingleClassHasNoLossOfClasses) {
  const Shape shape{1, 6, 4, 4};
  LossTrial trial(AnchorLoss{.part = classes, .anchors = {{8, 8}}},
                  {{shape, Floats(6 * cells, 1.0F)}, boxes_input({{{0, 12, 12, 8, 8}}})});
  EXPECT_EQ(trial.run(Pass::normalizer).weight, 0);
  EXPECT_EQ(trial.run(Pass::forward).loss, 0);
  EXPECT_TRUE(places_of(trial.backward(0)).empty());
}

TEST(AnchorLoss, CannotBeNormalizedByBoxesThatAreNotThereYet) {
  LossTrial trial = trial_of(box, map_of(1), {{no_box}});
  trial.forget(1);
  EXPECT_THROW(trial.run(Pass::normalizer), Error);
}

TEST(AnchorLoss, OfAnEmptyBatchIsZero) {
  for (const auto part : {box, objectness, classes}) {
    const auto ops = std::move(libraries().front());
    const AnchorLoss loss{.part = part, .anchors = {{8, 8}}};
    const auto kernel = ops->make(
        loss, std::array{Format::plain({0, 7, 4, 4}, DType::float32), Format::plain({0, 5, 1, 3}, DType::float32)});
    const std::array<const void*, 2> inputs{};
    for (const Pass pass : {Pass::normalizer, Pass::infer, Pass::forward}) {
      LossSums sums;
      kernel->run(pass, {.inputs = inputs, .output = &sums});
      EXPECT_EQ(sums.weight, 0);
      EXPECT_EQ(sums.loss, 0);
    }
  }
}

/// Central differences of 1 − CIoU with the trade-off of the point itself.
TEST(CompleteIou, HasTheDerivativesOfItsValueWithAConstantTradeoff) {
  const std::vector<std::array<CenteredBox, 2>> pairs{{{{2, 3, 4, 5}, {2.5, 2.75, 3.25, 6}}},
                                                      {{{0.5, 0.25, 1, 1}, {0.5, 0.25, 2, 3}}},
                                                      {{{0, 0, 1, 2}, {7, 1, 2, 1}}},
                                                      {{{1, 1, 9, 0.5}, {2, 1, 1, 4}}}};
  for (const auto& pair : pairs) {
    const CenteredBox& a = pair[0];
    const CenteredBox& b = pair[1];
    const CompleteIou at(a, b);
    const auto loss = [&](const CenteredBox& moved) {
      const CompleteIou of(moved, b);
      return 1 - of.iou() + of.distance / of.diagonal +
             CompleteIou::scale * of.difference * of.difference * at.tradeoff;
    };
    EXPECT_DOUBLE_EQ(loss(a), 1 - at.value());
    double gradient[4];
    at.gradient(a, b, gradient);
    constexpr double h = 1e-6;
    for (int k = 0; k < 4; ++k) {
      std::array<CenteredBox, 2> moved{a, a};
      for (const int side : {0, 1}) {
        double* const numbers[] = {&moved[side].x, &moved[side].y, &moved[side].width, &moved[side].height};
        *numbers[k] += side == 0 ? -h : h;
      }
      EXPECT_NEAR((loss(moved[1]) - loss(moved[0])) / (2 * h), gradient[k], 1e-8) << "number " << k;
    }
  }
}

TEST(CompleteIou, OfBoxesWithoutAreaIsFinite) {
  for (const CenteredBox& a : {CenteredBox{1, 1, 0, 0}, CenteredBox{1, 1, 3, 0}}) {
    const CenteredBox b{1, 1, 2, 2};
    const CompleteIou iou(a, b);
    EXPECT_TRUE(std::isfinite(iou.value()));
    double gradient[4];
    iou.gradient(a, b, gradient);
    for (const double element : gradient) EXPECT_TRUE(std::isfinite(element));
  }
}

}  // namespace
}  // namespace lockstep::ops::test
