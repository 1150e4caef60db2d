// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <sstream>
#include <utility>

#include "ops/shapes.hpp"

namespace lockstep::ops {
namespace {

/// Returns the signature of a loss: its LossSums, and the least that it reads and writes.
/// @param each  operations per element of the first input; the gradient costs half as many again
Signature loss_of(std::span<const Shape> inputs, std::int64_t each, std::vector<Content> contents = {}) {
  std::int64_t read = 0;
  for (const Shape& input : inputs) read += input.count();
  const std::int64_t predictions = inputs[0].count();
  return {.output = {1, 3, 1, 1},
          .forward = {each * predictions, read},
          .backward = {each * predictions * 3 / 2, read + predictions},
          .inputs = std::move(contents),
          .is_loss = true};
}

/// @throws Error{invalid_argument} unless predictions and targets have the same shape, and weights, if any, have one
///         channel or `weight_channels`
void require_targets(std::span<const Shape> inputs, std::int64_t weight_channels, const char* what) {
  require(
      inputs.size() == 2 || inputs.size() == 3,
      std::string(what) + " takes 2 inputs, or 3 of which the last are weights, not " + std::to_string(inputs.size()));
  require_inputs(inputs, inputs.size(), what);
  const Shape& predictions = inputs[0];
  require(inputs[1] == predictions,
          "predictions of " + text(predictions) + " need targets of the same shape, not " + text(inputs[1]));
  if (inputs.size() < 3) return;
  Shape weights = predictions;
  weights.channels = weight_channels;
  require(inputs[2] == weights,
          "predictions of " + text(predictions) + " need weights of " + text(weights) + ", not " + text(inputs[2]));
}

/// @throws Error{invalid_argument} unless the smoothing is between 0 and 1, and there are either no weights or one for
///         each class, none below 0
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

/// @throws Error{invalid_argument} unless there is a label for each position
void require_labels(std::span<const Shape> inputs, const char* what) {
  require_inputs(inputs, 2, what);
  const Shape& logits = inputs[0];
  const Shape labels{logits.batch, 1, logits.height, logits.width};
  require(inputs[1] == labels, "logits of " + text(logits) + " need a label for each position, " + text(labels) +
                                   " in all, not " + text(inputs[1]));
}

/// Returns the signature of a cross-entropy against labels: each logit costs a comparison, a difference, an exponential
/// and a sum; its gradient costs all but the comparison again.
Signature signature_by_labels(std::span<const Shape> inputs) {
  const std::int64_t logits = inputs[0].count();
  const std::int64_t labels = inputs[1].count();
  return {.output = {1, 3, 1, 1},
          .forward = {4 * logits, logits + labels},
          .backward = {5 * logits, 2 * logits + labels},
          .inputs = {Content::real, Content::integer},
          .is_loss = true};
}

/// Returns ", smoothing 0.1, weighted classes", or less.
std::string text_of_classes(double label_smoothing, std::span<const double> class_weights) {
  std::ostringstream text;
  if (label_smoothing != 0) text << ", smoothing " << label_smoothing;
  if (!class_weights.empty()) text << ", weighted classes";
  return text.str();
}

}  // namespace

Signature BinaryCrossEntropy::signature(std::span<const Shape> inputs) const {
  require_targets(inputs, inputs.empty() ? 0 : inputs[0].channels, "binary cross-entropy");
  require(positive_weight >= 0 && std::isfinite(positive_weight),
          "positive_weight is " + std::to_string(positive_weight) + "; it must be finite, and at least 0");
  // An element costs an exponential, a logarithm, two ramps, and five operations to combine them.
  return loss_of(inputs, 10);
}

std::string BinaryCrossEntropy::text() const { return "binary cross-entropy"; }

Signature CrossEntropy::signature(std::span<const Shape> inputs) const {
  require_labels(inputs, "cross-entropy");
  require_classes(label_smoothing, class_weights, inputs[0].channels);
  return signature_by_labels(inputs);
}

std::string CrossEntropy::text() const { return "cross-entropy" + text_of_classes(label_smoothing, class_weights); }

Signature OhemCrossEntropy::signature(std::span<const Shape> inputs) const {
  require_labels(inputs, "cross-entropy of hard positions");
  require(threshold > 0 && threshold <= 1,
          "threshold is " + std::to_string(threshold) + "; it must be a probability above 0");
  require(least >= 0 && least <= 1, "least is " + std::to_string(least) + "; it must be a fraction, from 0 to 1");
  return signature_by_labels(inputs);
}

std::string OhemCrossEntropy::text() const { return "cross-entropy of hard positions"; }

Signature SoftCrossEntropy::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "soft cross-entropy");
  require(inputs[1] == inputs[0], "logits of " + ops::text(inputs[0]) + " need targets of the same shape, not " +
                                      ops::text(inputs[1]) + "; labels are for cross-entropy");
  require_classes(label_smoothing, class_weights, inputs[0].channels);
  // Each logit costs a comparison, a difference, an exponential and a sum; its target costs a product and a sum.
  return loss_of(inputs, 6);
}

std::string SoftCrossEntropy::text() const {
  return "soft cross-entropy" + text_of_classes(label_smoothing, class_weights);
}

Signature Ctc::signature(std::span<const Shape> inputs) const {
  const bool has_steps = inputs.size() == 4;
  require_inputs(inputs, has_steps ? 4 : 3, "CTC of all steps");
  const Shape& logits = inputs[0];
  const Shape& targets = inputs[1];
  const Shape length{logits.batch, 1, 1, 1};
  require(logits.height == 1, "logits of " + ops::text(logits) + " are no sequences; their height must be 1");
  require(targets.batch == logits.batch && targets.channels == 1 && targets.height == 1,
          "logits of " + ops::text(logits) + " need targets of " + std::to_string(logits.batch) + "x1x1xS, not " +
              ops::text(targets));
  require(inputs[2] == length && inputs.back() == length,
          std::string(has_steps ? "CTC needs two lengths" : "CTC of all steps needs a length") + " for each sample, " +
              ops::text(length) + ", not " + ops::text(inputs[2]) + (has_steps ? " and " + ops::text(inputs[3]) : ""));
  require(blank >= 0 && blank < logits.channels, "blank is " + std::to_string(blank) + "; there are " +
                                                     std::to_string(logits.channels) + " classes, numbered from 0");
  // The cost is a softmax and, for each step and each state of the targets, two sums of three exponentials.
  constexpr std::int64_t per_state = 10;
  const std::int64_t states = logits.batch * logits.width * (2 * targets.width + 1);
  std::vector<Content> contents(inputs.size(), Content::integer);
  contents.front() = Content::real;
  Signature signature = loss_of(inputs, 4, std::move(contents));
  signature.forward.flops += per_state * states;
  signature.backward.flops += 3 * per_state * states;
  return signature;
}

std::string Ctc::text() const { return "CTC"; }

Signature Dice::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "dice");
  if (by_label) {
    require_labels(inputs, "dice");
  } else {
    require_targets(inputs, 1, "dice");
  }
  require(epsilon > 0 && std::isfinite(epsilon),
          "epsilon is " + std::to_string(epsilon) + "; it must be finite and positive");
  // An element costs a sigmoid of three operations, a product, and three sums.
  std::vector<Content> contents;
  if (by_label) contents = {Content::real, Content::integer};
  return loss_of(inputs, 7, std::move(contents));
}

std::string Dice::text() const { return by_label ? "dice by label" : "dice"; }

Signature Giou::signature(std::span<const Shape> inputs) const {
  require_targets(inputs, 1, "GIoU");
  require(inputs[0].channels == 4, "boxes of " + ops::text(inputs[0]) + " have " + std::to_string(inputs[0].channels) +
                                       " channels; there must be 4: x1, y1, x2, y2");
  require(epsilon > 0 && std::isfinite(epsilon),
          "epsilon is " + std::to_string(epsilon) + "; it must be finite and positive");
  // A box has four elements and costs about 32 operations.
  return loss_of(inputs, 8);
}

std::string Giou::text() const { return "GIoU"; }

Signature SmoothL1::signature(std::span<const Shape> inputs) const {
  require_targets(inputs, inputs.empty() ? 0 : inputs[0].channels, "smooth L1");
  require(beta >= 0 && std::isfinite(beta), "beta is " + std::to_string(beta) + "; it must be finite, and at least 0");
  // An element costs a difference, its absolute value, a comparison, two operations on either side of it, and a sum.
  return loss_of(inputs, 6);
}

std::string SmoothL1::text() const { return "smooth L1"; }

}  // namespace lockstep::ops
