// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/shapes.hpp"

namespace lockstep::ops {

namespace {

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
