// SPDX-License-Identifier: Apache-2.0
#include "ops/operators/losses.hpp"

#include <cmath>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep::ops {

Signature loss_of(std::span<const Shape> inputs, std::int64_t each, std::vector<Content> contents) {
  std::int64_t read = 0;
  for (const Shape& input : inputs) read += input.count();
  const std::int64_t predictions = inputs[0].count();
  return {.output = {1, 3, 1, 1},
          .forward = {each * predictions, read},
          .backward = {each * predictions * 3 / 2, read + predictions},
          .inputs = std::move(contents),
          .is_loss = true};
}

void require_targets(std::span<const Shape> inputs, std::int64_t weight_channels, const char* what) {
  require(
      inputs.size() == 2 || inputs.size() == 3,
      std::string(what) + " takes 2 inputs, or 3 of which the last are weights, not " + std::to_string(inputs.size()));
  require_inputs(inputs, inputs.size(), what);
  const Shape& predictions = inputs[0];
  require(inputs[1] == predictions,
          "predictions of " + text(predictions) + " need targets alike, not " + text(inputs[1]));
  if (inputs.size() < 3) return;
  Shape weights = predictions;
  weights.channels = weight_channels;
  require(inputs[2] == weights,
          "predictions of " + text(predictions) + " need weights of " + text(weights) + ", not " + text(inputs[2]));
}

void require_classes(double label_smoothing, std::span<const double> class_weights, std::int64_t classes) {
  require(label_smoothing >= 0 && label_smoothing <= 1,
          "label_smoothing is " + std::to_string(label_smoothing) + "; it must lie between 0 and 1");
  if (class_weights.empty()) return;
  require(static_cast<std::int64_t>(class_weights.size()) == classes,
          "class_weights are " + std::to_string(class_weights.size()) + "; there are " + std::to_string(classes) +
              " classes, and each has to have one");
  for (std::size_t c = 0; c < class_weights.size(); ++c) {
    require(class_weights[c] >= 0 && std::isfinite(class_weights[c]), "class_weights[" + std::to_string(c) + "] is " +
                                                                          std::to_string(class_weights[c]) +
                                                                          "; it must be finite, and at least 0");
  }
}

std::string text_of_classes(double label_smoothing, std::span<const double> class_weights) {
  std::ostringstream text;
  if (label_smoothing != 0) text << ", smoothing " << label_smoothing;
  if (!class_weights.empty()) text << ", weighted classes";
  return text.str();
}

}  // namespace lockstep::ops
