// SPDX-License-Identifier: Apache-2.0
#include "ops/operators/losses.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature SoftCrossEntropy::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "soft cross-entropy");
  require(inputs[1] == inputs[0], "logits of " + ops::text(inputs[0]) + " need targets alike, not " +
                                      ops::text(inputs[1]) + "; labels are for cross-entropy");
  require_classes(label_smoothing, class_weights, inputs[0].channels);
  // Each logit costs a comparison, a difference, an exponential and a sum; its target costs a product and a sum.
  return loss_of(inputs, 6);
}

std::string SoftCrossEntropy::text() const {
  return "soft cross-entropy" + text_of_classes(label_smoothing, class_weights);
}

}  // namespace lockstep::ops
