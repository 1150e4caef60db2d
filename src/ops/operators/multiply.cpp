// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/shapes.hpp"

namespace lockstep::ops {

namespace {

bool fit(std::int64_t a, std::int64_t b) { return a == b || a == 1 || b == 1; }

}  // namespace

Signature Multiply::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "a multiplication");
  const Shape& a = inputs[0];
  const Shape& b = inputs[1];
  require(a.batch == b.batch && fit(a.channels, b.channels) && fit(a.height, b.height) && fit(a.width, b.width),
          "cannot multiply activations of " + ops::text(a) + " and " + ops::text(b) +
              "; apart from the batch, extents have to be equal or 1");
  const Shape out{a.batch, std::max(a.channels, b.channels), std::max(a.height, b.height), std::max(a.width, b.width)};
  const std::int64_t factors = a.count() + b.count();
  // Backward costs a product for each gradient, and a sum for a factor that is smaller than the result.
  const std::int64_t sums = (a == out ? 0 : out.count()) + (b == out ? 0 : out.count());
  return {.output = out,
          .forward = {out.count(), factors + out.count()},
          .backward = {2 * out.count() + sums, 2 * factors + out.count()}};
}

std::string Multiply::text() const { return "multiply"; }

}  // namespace lockstep::ops
