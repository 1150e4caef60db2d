// SPDX-License-Identifier: Apache-2.0
#include "ops/operators/losses.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature CrossEntropy::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "cross-entropy");
  const Shape& logits = inputs[0];
  const Shape labels{logits.batch, 1, logits.height, logits.width};
  require(inputs[1] == labels, "logits of " + ops::text(logits) + " need a label for each position, " +
                                   ops::text(labels) + " in all, not " + ops::text(inputs[1]));
  require_classes(label_smoothing, class_weights, logits.channels);
  // Each logit costs a comparison, a difference, an exponential and a sum; its gradient costs all but the comparison
  // again.
  return {.output = {1, 3, 1, 1},
          .forward = {4 * logits.count(), logits.count() + labels.count()},
          .backward = {5 * logits.count(), 2 * logits.count() + labels.count()},
          .inputs = {Content::real, Content::integer},
          .is_loss = true};
}

std::string CrossEntropy::text() const { return "cross-entropy" + text_of_classes(label_smoothing, class_weights); }

}  // namespace lockstep::ops
