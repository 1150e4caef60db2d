// SPDX-License-Identifier: Apache-2.0
#include "ops/operators/losses.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Ctc::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 4, "CTC");
  const Shape& logits = inputs[0];
  const Shape& targets = inputs[1];
  const Shape length{logits.batch, 1, 1, 1};
  require(logits.height == 1, "logits of " + ops::text(logits) + " are no sequences; their height must be 1");
  require(targets.batch == logits.batch && targets.channels == 1 && targets.height == 1,
          "logits of " + ops::text(logits) + " need targets of " + std::to_string(logits.batch) + "x1x1xS, not " +
              ops::text(targets));
  require(inputs[2] == length && inputs[3] == length, "CTC needs two lengths for each sample, " + ops::text(length) +
                                                          ", not " + ops::text(inputs[2]) + " and " +
                                                          ops::text(inputs[3]));
  require(blank >= 0 && blank < logits.channels, "blank is " + std::to_string(blank) + "; there are " +
                                                     std::to_string(logits.channels) + " classes, numbered from 0");
  // The cost is a softmax and, for each step and each state of the targets, two sums of three exponentials.
  constexpr std::int64_t per_state = 10;
  const std::int64_t states = logits.batch * logits.width * (2 * targets.width + 1);
  const std::vector<Content> contents{Content::real, Content::integer, Content::integer, Content::integer};
  Signature signature = loss_of(inputs, 4, contents);
  signature.forward.flops += per_state * states;
  signature.backward.flops += 3 * per_state * states;
  return signature;
}

std::string Ctc::text() const { return "CTC"; }

}  // namespace lockstep::ops
