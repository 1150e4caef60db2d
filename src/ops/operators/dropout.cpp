// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Dropout::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "dropout");
  require(probability >= 0 && probability < 1,
          "probability is " + std::to_string(probability) + "; it must be in 0 … 1, 1 excluded");
  const std::int64_t count = inputs[0].count();
  // The random number of an element costs about ten operations.
  return {.output = inputs[0], .forward = {11 * count, 2 * count}, .backward = {11 * count, 2 * count}};
}

std::string Dropout::text() const { return "dropout of " + std::to_string(probability).substr(0, 4); }

}  // namespace lockstep::ops
