// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ops/loss_trial.hpp"

/// Tests which positions the cross-entropy of hard positions keeps.
namespace lockstep::ops::test {
namespace {

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

using Floats = std::vector<float>;
using Labels = std::vector<std::int32_t>;

/// Logits of two classes by which label 0 has these probabilities, sample by sample.
Floats logits_of(const std::vector<double>& probabilities, std::size_t positions) {
  Floats logits;
  for (std::size_t first = 0; first < probabilities.size(); first += positions) {
    for (std::size_t i = first; i < first + positions; ++i)
      logits.push_back(static_cast<float>(std::log(probabilities[i] / (1 - probabilities[i]))));
    logits.insert(logits.end(), positions, 0.0F);
  }
  return logits;
}

/// A row of positions in each sample.
LossTrial trial_of(const OhemCrossEntropy& loss, const std::vector<double>& probabilities, const Labels& labels,
                   std::int64_t samples = 1) {
  const std::int64_t positions = std::ssize(labels) / samples;
  return LossTrial(loss, {{{samples, 2, 1, positions}, logits_of(probabilities, static_cast<std::size_t>(positions))},
                          {{samples, 1, 1, positions}, {}, labels}});
}

/// The positions that have a gradient, and its sum for label 0 at them.
struct Kept {
  std::vector<std::size_t> positions;
  double sum = 0;
};
Kept hard_of(LossTrial& trial, std::size_t positions) {
  const Floats gradient = trial.backward(0);
  Kept kept;
  for (std::size_t i = 0; i < positions; ++i) {
    EXPECT_NEAR(gradient[i], -gradient[positions + i], 1e-6F);
    if (gradient[i] == 0) continue;
    kept.positions.push_back(i);
    kept.sum += static_cast<double>(gradient[i]);
  }
  return kept;
}

TEST(CrossEntropyOfHardPositions, KeepsThoseWithALowProbability) {
  LossTrial trial = trial_of({.threshold = 0.7, .least = 0.25}, {0.9, 0.6, 0.8, 0.2, 0.65, 0.71}, Labels(6));
  const LossSums sums = trial.run(Pass::forward);
  EXPECT_EQ(sums.weight, 1);
  EXPECT_NEAR(sums.loss, -(std::log(0.6) + std::log(0.2) + std::log(0.65)) / 3, 1e-6);
  EXPECT_EQ(trial.run(Pass::infer).loss, sums.loss);
  const Kept kept = hard_of(trial, 6);
  EXPECT_EQ(kept.positions, (std::vector<std::size_t>{1, 3, 4}));
  EXPECT_NEAR(kept.sum, -(0.4 + 0.8 + 0.35) / 3, 1e-6);
}

TEST(CrossEntropyOfHardPositions, KeepsTheHardestWhereTooFewAreHard) {
  const std::vector<double> probabilities{0.9, 0.6, 0.8, 0.95, 0.85, 0.99};
  LossTrial half = trial_of({.threshold = 0.7, .least = 0.5}, probabilities, Labels(6));
  EXPECT_NEAR(half.run(Pass::forward).loss, -(std::log(0.6) + std::log(0.8) + std::log(0.85)) / 3, 1e-6);
  EXPECT_EQ(hard_of(half, 6).positions, (std::vector<std::size_t>{1, 2, 4}));
  LossTrial rounded = trial_of({.threshold = 0.7, .least = 0.17}, probabilities, Labels(6));
  EXPECT_EQ(hard_of(rounded, 6).positions, (std::vector<std::size_t>{1, 2})) << "1.02 positions are two";
  LossTrial all = trial_of({.threshold = 0.01, .least = 1}, probabilities, Labels(6));
  EXPECT_EQ(hard_of(all, 6).positions.size(), 6U);
}

TEST(CrossEntropyOfHardPositions, KeepsAllOfThoseThatAreEquallyHard) {
  LossTrial trial = trial_of({.threshold = 0.1, .least = 0.25}, {0.9, 0.8, 0.8, 0.95, 0.8, 0.6, 0.9, 0.9}, Labels(8));
  EXPECT_EQ(hard_of(trial, 8).positions, (std::vector<std::size_t>{1, 2, 4, 5})) << "two are asked for";
}

TEST(CrossEntropyOfHardPositions, KeepsNothingThatNobodyAsksFor) {
  LossTrial trial = trial_of({.threshold = 0.5, .least = 0}, {0.9, 0.8, 0.7, 0.6}, Labels(4));
  const LossSums sums = trial.run(Pass::forward);
  EXPECT_EQ(sums.weight, 1);
  EXPECT_EQ(sums.loss, 0);
  EXPECT_TRUE(hard_of(trial, 4).positions.empty());
}

TEST(CrossEntropyOfHardPositions, LooksAtEachSampleByItself) {
  const OhemCrossEntropy loss{.threshold = 0.7, .least = 0.5};
  const std::vector<double> first{0.9, 0.6, 0.8, 0.95}, second{0.1, 0.2, 0.3, 0.9};
  std::vector<double> both = first;
  both.insert(both.end(), second.begin(), second.end());
  LossTrial whole = trial_of(loss, both, Labels(8), 2);
  LossTrial alone = trial_of(loss, first, Labels(4));
  LossTrial other = trial_of(loss, second, Labels(4));
  const LossSums sums = whole.run(Pass::forward);
  EXPECT_EQ(sums.weight, 2);
  EXPECT_NEAR(sums.loss, alone.run(Pass::forward).loss + other.run(Pass::forward).loss, 1e-9);
  Floats parts = alone.backward(0);
  const Floats rest = other.backward(0);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(whole.backward(0), parts) << "to the last bit";
}

TEST(CrossEntropyOfHardPositions, DoesNotCountIgnoredLabels) {
  const OhemCrossEntropy loss{.threshold = 0.1, .least = 0.5, .ignore_index = 255};
  LossTrial trial = trial_of(loss, {0.2, 0.6, 0.8, 0.9, 0.2, 0.6, 0.8, 0.9}, {255, 0, 0, 0, 255, 255, 255, 255}, 2);
  trial.forget(0);
  EXPECT_EQ(trial.run(Pass::normalizer).weight, 1);
  LossTrial again = trial_of(loss, {0.2, 0.6, 0.8, 0.9, 0.2, 0.6, 0.8, 0.9}, {255, 0, 0, 0, 255, 255, 255, 255}, 2);
  const LossSums sums = again.run(Pass::forward);
  EXPECT_EQ(sums.weight, 1);
  EXPECT_NEAR(sums.loss, -(std::log(0.6) + std::log(0.8)) / 2, 1e-6);
  const Floats gradient = again.backward(0);
  EXPECT_EQ(gradient[0], 0);
  EXPECT_NE(gradient[1], 0);
  for (std::size_t i = 8; i < 16; ++i) EXPECT_EQ(gradient[i], 0);
}

TEST(CrossEntropyOfHardPositions, ReportsTheFirstLabelThatIsNoClass) {
  LossTrial trial = trial_of({}, {0.2, 0.3, 0.4, 0.5}, {0, 0, 7, -3}, 2);
  EXPECT_EQ(trial.run(Pass::forward).weight, 1);
  EXPECT_EQ(trial.fault(), "label of sample 1 is 7; there are 2 classes, numbered from 0");
}

TEST(CrossEntropyOfHardPositions, ShowsThatALogitIsNoNumber) {
  for (const double least : {0.0, 0.5, 1.0}) {
    LossTrial trial(OhemCrossEntropy{.threshold = 0.7, .least = least},
                    {{{1, 2, 1, 4}, {4, no_number, 3, 5, 0, 0, 0, 0}}, {{1, 1, 1, 4}, {}, Labels(4)}});
    EXPECT_TRUE(std::isnan(trial.run(Pass::forward).loss)) << least;
    EXPECT_TRUE(std::isnan(trial.backward(0)[1])) << least;
  }
}

/// So many positions and samples that GPUs add up parts, and that tiles and words end within them.
TEST(CrossEntropyOfHardPositions, KeepsAsManyAsASortingOfAllPositionsSays) {
  constexpr std::int64_t samples = 9, positions = 1051;
  std::vector<double> probabilities;
  for (std::int64_t i = 0; i < samples * positions; ++i)
    probabilities.push_back(0.5 + 0.49 * std::sin(1.7 * static_cast<double>(i % positions * 31 + i)));
  LossTrial trial = trial_of({.threshold = 0.02, .least = 0.1}, probabilities, Labels(samples * positions), samples);
  trial.run(Pass::forward);
  const Floats gradient = trial.backward(0);
  for (std::size_t n = 0; n < samples; ++n) {
    std::vector<double> sorted(probabilities.begin() + static_cast<std::ptrdiff_t>(n * positions),
                               probabilities.begin() + static_cast<std::ptrdiff_t>((n + 1) * positions));
    std::ranges::sort(sorted);
    const auto hard = std::ranges::count_if(sorted, [](double p) { return p < 0.02; });
    const std::int64_t wanted = std::max<std::int64_t>(106, hard);
    const Floats of_sample(gradient.begin() + static_cast<std::ptrdiff_t>(2 * n * positions),
                           gradient.begin() + static_cast<std::ptrdiff_t>((2 * n + 1) * positions));
    EXPECT_EQ(std::ranges::count_if(of_sample, [](float value) { return value != 0; }), wanted) << n;
    const double least = sorted[static_cast<std::size_t>(wanted - 1)];
    for (std::size_t i = 0; i < positions; ++i)
      EXPECT_EQ(of_sample[i] != 0, probabilities[n * positions + i] <= least) << n << ' ' << i;
  }
}

}  // namespace
}  // namespace lockstep::ops::test
