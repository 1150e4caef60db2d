// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "data/read_samples.hpp"
#include "lockstep/data/sampler.hpp"
#include "vision/synthetic/synthetic.hpp"
#include "vision/whole_pictures.hpp"

namespace lockstep::vision {
namespace {

constexpr std::size_t classes = 10;
using Scores = std::array<float, classes>;

/// Multinomial logistic regression, trained by stochastic gradient descent.
class SoftmaxRegression {
 public:
  explicit SoftmaxRegression(std::size_t inputs) : inputs_(inputs), weights_(classes * (inputs + 1)) {}

  void train_on(const float* image, std::int32_t label, float rate) {
    Scores error = probabilities(image);
    error[static_cast<std::size_t>(label)] -= 1;
    for (std::size_t c = 0; c < classes; ++c) {
      float* row = weights_.data() + c * (inputs_ + 1);
      const float step = rate * error[c];
      for (std::size_t i = 0; i < inputs_; ++i) row[i] -= step * image[i];
      row[inputs_] -= step;
    }
  }

  [[nodiscard]] std::int32_t classify(const float* image) const {
    const Scores p = probabilities(image);
    return static_cast<std::int32_t>(std::max_element(p.begin(), p.end()) - p.begin());
  }

 private:
  [[nodiscard]] Scores probabilities(const float* image) const {
    Scores p{};
    for (std::size_t c = 0; c < classes; ++c) {
      const float* row = weights_.data() + c * (inputs_ + 1);
      float score = row[inputs_];
      for (std::size_t i = 0; i < inputs_; ++i) score += row[i] * image[i];
      p[c] = score;
    }
    const float largest = *std::max_element(p.begin(), p.end());
    float sum = 0;
    for (float& value : p) sum += value = std::exp(value - largest);
    for (float& value : p) value /= sum;
    return p;
  }

  std::size_t inputs_;
  std::vector<float> weights_;
};

struct Prepared {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

Prepared prepare(const data::Dataset& dataset, std::size_t inputs) {
  const auto samples = static_cast<std::size_t>(dataset.size());
  Prepared all{std::vector<float>(samples * inputs), std::vector<std::int32_t>(samples)};
  const data::DistributedSampler everything({.samples = {dataset.size()}, .batch = {dataset.size()}, .shuffle = false});
  data::read_samples(dataset, everything.indices(0),
                     std::array<Buffer, 2>{std::span(all.images), std::span(all.labels)});
  return all;
}

double accuracy(const SoftmaxRegression& model, const Prepared& data, std::size_t inputs) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < data.labels.size(); ++i)
    if (model.classify(data.images.data() + i * inputs) == data.labels[i]) ++right;
  return static_cast<double>(right) / static_cast<double>(data.labels.size());
}

TEST(SyntheticDigits, ALinearModelStaysUnder93Percent) {
  const data::DatasetPair pair = whole_pictures(synthetic_digits({}));
  const auto inputs = static_cast<std::size_t>(pair.train->tensors().front().elements());
  const Prepared train = prepare(*pair.train, inputs);
  const Prepared test = prepare(*pair.test, inputs);

  SoftmaxRegression model(inputs);
  data::DistributedSampler order({.samples = {pair.train->size()}, .batch = {pair.train->size()}});
  double best = 0;
  constexpr int epochs = 12;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    order.start_epoch(epoch);
    const float rate = 0.002F / static_cast<float>(epoch);
    for (const std::int64_t i : order.indices(0))
      model.train_on(train.images.data() + static_cast<std::size_t>(i) * inputs,
                     train.labels[static_cast<std::size_t>(i)], rate);
    best = std::max(best, accuracy(model, test, inputs));
  }
  RecordProperty("best_test_accuracy_percent", static_cast<int>(100 * best));
  EXPECT_LT(best, 0.93);
  // The model has learned what a linear model can learn; otherwise the bound above would have no meaning.
  EXPECT_GT(accuracy(model, train, inputs), 0.70);
}

}  // namespace
}  // namespace lockstep::vision
