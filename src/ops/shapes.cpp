// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::ops {

namespace {

std::string text(const Shape& shape) {
  return std::to_string(shape.batch) + "x" + std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorCode::invalid_argument, message);
}

void require_at_least(std::int64_t value, std::int64_t least, const char* what) {
  require(value >= least,
          std::string(what) + " is " + std::to_string(value) + "; it must be at least " + std::to_string(least));
}

/// Windows along one axis of `extent` elements, zeros on both sides included.
std::int64_t windows(const Shape& in, std::int64_t extent, std::int64_t kernel, std::int64_t stride) {
  require(extent >= kernel, "a kernel of " + std::to_string(kernel) + " does not fit an input of " + text(in) +
                                "; use a smaller kernel or more padding");
  return (extent - kernel) / stride + 1;
}

void require_count(std::size_t given, std::size_t wanted, const char* what) {
  if (given == wanted) return;  // before the message is made: calls must not allocate
  throw Error(ErrorCode::invalid_argument, "the operator takes " + std::to_string(wanted) + " " + what +
                                               ", the call brings " + std::to_string(given));
}

}  // namespace

void check_shape(const Shape& shape) {
  require(shape.batch >= 0 && shape.channels > 0 && shape.height > 0 && shape.width > 0,
          "activation shape " + text(shape) + " has an extent below 1 (only the batch may be 0)");
}

Shape output_shape(const Shape& in, const ConvolutionShape& shape) {
  check_shape(in);
  require_at_least(shape.out_channels, 1, "out_channels");
  require_at_least(shape.kernel, 1, "kernel");
  require_at_least(shape.stride, 1, "stride");
  require_at_least(shape.padding, 0, "padding");
  return {in.batch, shape.out_channels, windows(in, in.height + 2 * shape.padding, shape.kernel, shape.stride),
          windows(in, in.width + 2 * shape.padding, shape.kernel, shape.stride)};
}

Shape output_shape(const Shape& in, const PoolShape& shape) {
  check_shape(in);
  require_at_least(shape.kernel, 1, "kernel");
  require_at_least(shape.stride, 1, "stride");
  return {in.batch, in.channels, windows(in, in.height, shape.kernel, shape.stride),
          windows(in, in.width, shape.kernel, shape.stride)};
}

Shape output_shape(const Shape& in, std::int64_t out_channels) {
  check_shape(in);
  require_at_least(out_channels, 1, "out_channels");
  return {in.batch, out_channels, 1, 1};
}

void check_batch_norm(const Shape& in, const BatchNormShape& shape) {
  check_shape(in);
  require(shape.epsilon > 0, "epsilon is " + std::to_string(shape.epsilon) + "; it must be positive");
  require(shape.momentum >= 0 && shape.momentum <= 1,
          "momentum is " + std::to_string(shape.momentum) + "; it must lie between 0 and 1");
}

void check_same(const Format& a, const Format& b) {
  check_shape(a.shape);
  require(a.shape == b.shape, "cannot add activations of " + text(a.shape) + " and " + text(b.shape));
  require(a.dtype == b.dtype,
          "cannot add " + std::string(name(a.dtype)) + " and " + std::string(name(b.dtype)) + " activations");
}

void check_logits(const Shape& logits) {
  check_shape(logits);
  require(logits.height == 1 && logits.width == 1,
          "logits of " + text(logits) + " have more than one value per class; pool or flatten them first");
}

void Arity::check(const Operator::Forward& call) const {
  require_count(call.inputs.size(), inputs, "inputs");
  require_count(call.parameters.size(), parameters, "parameters");
  require_count(call.state.size(), state, "state tensors");
}

void Arity::check(const Operator::Backward& call) const {
  require_count(call.inputs.size(), inputs, "inputs");
  require_count(call.parameters.size(), parameters, "parameters");
  require_count(call.input_gradients.size(), inputs, "input gradients");
  require_count(call.parameter_gradients.size(), parameters, "parameter gradients");
}

}  // namespace lockstep::ops
