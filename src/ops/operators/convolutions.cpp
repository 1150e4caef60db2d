// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/shapes.hpp"
namespace lockstep::ops {

Signature Convolution::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a convolution");
  require_at_least(out_channels, 1, "out_channels");
  require_groups(groups, inputs[0].channels, out_channels);
  const Shape out = windows_of(inputs[0], out_channels, {kernel, stride, padding, dilation});
  const OwnedTensor weights{.name = "weight",
                            .shape = {out_channels, inputs[0].channels / groups, kernel.height, kernel.width}};
  Signature signature = product(inputs[0], out, weights, bias, activation);
  if (statistics) signature.state = {{.name = "running_mean", .shape = {out_channels}}};
  return signature;
}

std::string Convolution::text() const {
  return "convolution " + ops::text(Windows{kernel, stride, padding, dilation}) + text_of_groups(groups) +
         ops::text(activation) + (statistics ? ", statistics" : "");
}

namespace {

void check_output_padding(const TransposedConvolution& shape) {
  const Pair& added = shape.output_padding;
  const Pair& stride = shape.stride;
  const Pair& dilation = shape.dilation;
  require_at_least(added, 0, "output_padding");
  require(
      added.height < std::max(stride.height, dilation.height) && added.width < std::max(stride.width, dilation.width),
      "output_padding is " + text(added) + "; it must be less than the stride, " + text(stride) +
          ", or the dilation, " + text(dilation));
}

Shape spread_out(const Shape& in, const TransposedConvolution& shape) {
  const auto along = [](std::int64_t extent, std::int64_t stride, std::int64_t padding, std::int64_t reach) {
    return (extent - 1) * stride - 2 * padding + reach + 1;
  };
  const auto reach = [](std::int64_t kernel, std::int64_t dilation, std::int64_t added) {
    return dilation * (kernel - 1) + added;
  };
  const Shape out{in.batch, shape.out_channels,
                  along(in.height, shape.stride.height, shape.padding.height,
                        reach(shape.kernel.height, shape.dilation.height, shape.output_padding.height)),
                  along(in.width, shape.stride.width, shape.padding.width,
                        reach(shape.kernel.width, shape.dilation.width, shape.output_padding.width))};
  require(out.height > 0 && out.width > 0, "a padding of " + text(shape.padding) +
                                               " leaves no output for an input of " + text(in) +
                                               "; use less padding or a larger kernel");
  return out;
}

constexpr std::int64_t lstm_gates = 4;

std::vector<OwnedTensor> lstm_parameters(const Lstm& lstm, std::int64_t features) {
  const std::int64_t rows = lstm_gates * lstm.hidden;
  const double spread = 1 / std::sqrt(static_cast<double>(lstm.hidden));
  std::vector<OwnedTensor> parameters;
  for (int direction = 0; direction < (lstm.bidirectional ? 2 : 1); ++direction) {
    const std::string end = direction == 0 ? "_l0" : "_l0_reverse";
    parameters.push_back({.name = "weight_ih" + end, .shape = {rows, features}, .spread = spread});
    parameters.push_back({.name = "weight_hh" + end, .shape = {rows, lstm.hidden}, .spread = spread});
    parameters.push_back({.name = "bias_ih" + end, .shape = {rows}, .spread = spread});
    parameters.push_back({.name = "bias_hh" + end, .shape = {rows}, .spread = spread});
  }
  return parameters;
}

void check_lstm_inputs(std::span<const Shape> inputs) {
  require_inputs(inputs, inputs.size() == 2 ? 2 : 1, "an LSTM without lengths");
  const Shape& in = inputs[0];
  require(in.height == 1, "an LSTM takes sequences, of height 1 and with their steps in the width, not " + text(in));
  const Shape lengths{in.batch, 1, 1, 1};
  require(inputs.size() == 1 || inputs[1] == lengths, "sequences of " + text(in) + " need a length for each sample, " +
                                                          text(lengths) + " in all, not " + text(inputs.back()));
}

}  // namespace

Signature TransposedConvolution::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a transposed convolution");
  const Shape& in = inputs[0];
  require_at_least(out_channels, 1, "out_channels");
  require_groups(groups, in.channels, out_channels);
  check({kernel, stride, padding, dilation});
  check_output_padding(*this);
  const std::int64_t each = out_channels / groups * kernel.area();
  const OwnedTensor weights{.name = "weight",
                            .shape = {in.channels, out_channels / groups, kernel.height, kernel.width}};
  // As in PyTorch, the fan-in is that of the convolution in the other direction.
  return product(in, spread_out(in, *this), weights, bias, activation, {.products = in.count() * each, .fan_in = each});
}

std::string TransposedConvolution::text() const {
  return "transposed convolution " + ops::text(Windows{kernel, stride, padding, dilation}) + text_of_groups(groups) +
         ops::text(activation);
}

Signature Linear::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a linear layer");
  require_at_least(out_features, 1, "out_features");
  const Shape& in = inputs[0];
  const Shape out{in.batch, out_features, 1, 1};
  return product(in, out, {.name = "weight", .shape = {out_features, in.channels * in.height * in.width}}, true,
                 activation);
}

std::string Linear::text() const { return "linear" + ops::text(activation); }

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

Signature Lstm::signature(std::span<const Shape> inputs) const {
  check_lstm_inputs(inputs);
  require_at_least(hidden, 1, "hidden");
  const Shape& in = inputs[0];
  const std::int64_t directions = bidirectional ? 2 : 1;
  Signature signature{.output = {in.batch, directions * hidden, 1, in.width},
                      .parameters = lstm_parameters(*this, in.channels)};
  if (inputs.size() == 2) signature.inputs = {Content::real, Content::integer};
  std::int64_t weights = 0;
  for (const OwnedTensor& parameter : signature.parameters) weights += parameter.count();
  // Each gate costs a multiplication and an addition for each feature and hidden state, two biases and a function. The
  // cell costs three operations, a function, and a product. Backward costs the products for the weights, those that go
  // back in time, and about 30 operations on gates and cells. The products for the input are counted separately.
  const std::int64_t rows = in.batch * in.width * directions * lstm_gates * hidden;
  const std::int64_t results = signature.output.count();
  const std::int64_t moved = in.count() + weights + results;
  signature.forward = {rows * (2 * (in.channels + hidden) + 3) + 5 * results, moved};
  signature.backward = {rows * 2 * (in.channels + 2 * hidden) + 30 * results, moved + weights + results};
  signature.backward_inputs = {rows * 2 * in.channels, in.count()};
  return signature;
}

std::string Lstm::text() const {
  return std::string(bidirectional ? "bidirectional " : "") + "LSTM of " + std::to_string(hidden);
}

}  // namespace lockstep::ops
