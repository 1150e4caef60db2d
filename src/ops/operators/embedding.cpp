// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <numbers>

#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Embedding::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "an embedding");
  const Shape& in = inputs[0];
  require(in.channels == 1 && in.height == 1,
          "an embedding takes sequences of tokens, of one channel and height 1, not " + ops::text(in));
  require_at_least(entries, 1, "entries");
  require(entries <= std::numeric_limits<std::int32_t>::max(),
          "entries is " + std::to_string(entries) + "; tokens are int32");
  require_at_least(features, 1, "features");
  require(!padding_index || (*padding_index >= 0 && *padding_index < entries),
          "padding_index is " + std::to_string(padding_index.value_or(0)) + "; it must lie between 0 and " +
              std::to_string(entries - 1) + ", the last entry");
  const Shape out{in.batch, features, 1, in.width};
  // Forward reads at most as much of the table as there are results. Backward writes the whole gradient of the table.
  return {.output = out,
          .parameters = {{.name = "weight", .shape = {entries, features}, .spread = std::numbers::sqrt3}},
          .forward = {0, in.count() + 2 * out.count()},
          .backward = {out.count(), in.count() + out.count() + entries * features},
          .inputs = {Content::integer}};
}

std::string Embedding::text() const {
  return "embedding of " + std::to_string(entries) + " in " + std::to_string(features);
}

}  // namespace lockstep::ops
