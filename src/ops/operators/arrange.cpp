// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {
namespace {

/// Returns the signature of a copy: forward and backward each read and write every element of the result.
Signature copied(const Shape& out) {
  return {.output = out, .forward = {0, 2 * out.count()}, .backward = {0, 2 * out.count()}};
}

}  // namespace

Signature Concat::signature(std::span<const Shape> inputs) const {
  require(inputs.size() >= 2, "a concatenation takes at least 2 inputs, not " + std::to_string(inputs.size()));
  require_inputs(inputs, inputs.size(), "a concatenation");
  Extents extents = sample_extents(inputs[0]);
  std::int64_t& along = extents[index_of(axis)];
  along = 0;
  for (const Shape& in : inputs) {
    const std::int64_t own = sample_extents(in)[index_of(axis)];
    Extents as_first = sample_extents(in);
    as_first[index_of(axis)] = sample_extents(inputs[0])[index_of(axis)];
    require(shape_of(in.batch, as_first) == inputs[0], "cannot concatenate activations of " + ops::text(inputs[0]) +
                                                           " and " + ops::text(in) + " along " + ops::text(axis));
    along += own;
  }
  return copied(shape_of(inputs[0].batch, extents));
}

std::string Concat::text() const { return "concat along " + ops::text(axis); }

Signature Slice::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a slice");
  Extents extents = sample_extents(inputs[0]);
  std::int64_t& along = extents[index_of(axis)];
  require_at_least(begin, 0, "begin");
  require(end > begin && end <= along, "end is " + std::to_string(end) + "; it must be greater than begin, " +
                                           std::to_string(begin) + ", and at most the input's " + ops::text(axis) +
                                           ", " + std::to_string(along));
  along = end - begin;
  Signature signature = copied(shape_of(inputs[0].batch, extents));
  signature.backward.elements = signature.output.count() + inputs[0].count();  // zeros are written, too
  return signature;
}

std::string Slice::text() const {
  return "slice of " + ops::text(axis) + " " + std::to_string(begin) + " to " + std::to_string(end - 1);
}

Signature Reshape::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a reshape");
  const Shape& in = inputs[0];
  require_at_least(channels, 1, "channels");
  require_at_least(height, 1, "height");
  require_at_least(width, 1, "width");
  require(channels * height * width == run_of(in, Axis::channels),
          "cannot reshape samples of " + ops::text(in) + " into " +
              ops::text(Shape{in.batch, channels, height, width}) + ", which has another number of elements");
  return copied({in.batch, channels, height, width});
}

std::string Reshape::text() const {
  return "reshape to " + std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width);
}

Signature Permute::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a permutation");
  const Extents in = sample_extents(inputs[0]);
  Extents out{};
  Extents uses{};
  for (std::size_t i = 0; i < order.size(); ++i) {
    out[i] = in[index_of(order[i])];
    ++uses[index_of(order[i])];
  }
  require(uses == Extents{1, 1, 1}, "order is " + ops::text(order[0]) + ", " + ops::text(order[1]) + ", " +
                                        ops::text(order[2]) + "; it must name each axis once");
  return copied(shape_of(inputs[0].batch, out));
}

std::string Permute::text() const {
  return "permute to " + ops::text(order[0]) + ", " + ops::text(order[1]) + ", " + ops::text(order[2]);
}

}  // namespace lockstep::ops
