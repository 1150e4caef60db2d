// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature FrozenBatchNorm::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a frozen batch norm");
  require(epsilon >= 0, "epsilon is " + std::to_string(epsilon) + "; it must not be negative");
  const std::int64_t count = inputs[0].count();
  const std::vector<std::int64_t> channels{inputs[0].channels};
  return {.output = inputs[0],
          .state = {{.name = "weight", .shape = channels, .value = 1},
                    {.name = "bias", .shape = channels},
                    {.name = "running_mean", .shape = channels},
                    {.name = "running_var", .shape = channels, .value = 1}},
          .forward = {2 * count, 2 * count},
          .backward = {count, 2 * count}};
}

std::string FrozenBatchNorm::text() const { return "frozen batch norm"; }

}  // namespace lockstep::ops
