// SPDX-License-Identifier: Apache-2.0
// The LSTM of exported models, which reads its weights in another order.
#include <cstdint>
#include <string>
#include <vector>

#include "nn/onnx/onnx_nodes.hpp"

namespace lockstep::nn {
namespace {

/// ONNX has the gates in the order i, o, f, g: for each of its gates the number among i, f, g, o.
constexpr std::int64_t order_of_gates[] = {0, 3, 1, 2};

std::vector<std::int64_t> reordered_gates(std::int64_t blocks, std::int64_t hidden) {
  std::vector<std::int64_t> rows;
  for (std::int64_t block = 0; block < blocks; ++block)
    for (const std::int64_t gate : order_of_gates)
      for (std::int64_t unit = 0; unit < hidden; ++unit) rows.push_back((4 * block + gate) * hidden + unit);
  return rows;
}

}  // namespace

/// Sequences are steps × samples × features in ONNX, and states steps × directions × samples × hidden.
std::string OnnxNodes::operator()(const Lstm& op) {
  const ops::Shape& in = shape();
  const std::string& name = node_->name;
  const std::int64_t directions = op.bidirectional ? 2 : 1;
  const std::string rows = reshape(spatial(), name + ".rows", {0, in.channels, in.width});
  std::vector<std::string> inputs{
      onnx_.node("Transpose", {rows}, name + ".sequence", {{"perm", std::vector<std::int64_t>{2, 0, 1}}}),
      gates(op, "W", {0}, {directions, 4 * op.hidden, in.channels}),
      gates(op, "R", {1}, {directions, 4 * op.hidden, op.hidden}),
      gates(op, "B", {2, 3}, {directions, 8 * op.hidden}),
  };
  if (node_->inputs.size() == 2) inputs.push_back(plain(1));
  const std::string states = onnx_.node(
      "LSTM", inputs, name + ".states",
      {{"hidden_size", op.hidden}, {"direction", std::string(op.bidirectional ? "bidirectional" : "forward")}});
  const std::string samples =
      onnx_.node("Transpose", {states}, name + ".samples", {{"perm", std::vector<std::int64_t>{2, 1, 3, 0}}});
  return reshape(samples, result_, {0, directions * op.hidden, 1, in.width});
}

/// Concatenates parameters, numbered within a direction, of one direction after the other, with their gates in ONNX's
/// order. @return the name of the result
std::string OnnxNodes::gates(const Lstm& op, const char* what, const std::vector<std::size_t>& parameters,
                             const std::vector<std::int64_t>& extents) {
  constexpr std::size_t of_direction = 4;
  const std::string name = node_->name + "." + what;
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < node_->parameters.size(); first += of_direction)
    for (const std::size_t parameter : parameters)
      parts.push_back(weight(graph_.parameters().at(node_->parameters[first + parameter])));
  const std::string together =
      parts.size() == 1 ? parts.front() : onnx_.node("Concat", parts, name + ".together", {{"axis", std::int64_t{0}}});
  const std::string order =
      onnx_.constant(name + ".order", reordered_gates(static_cast<std::int64_t>(parts.size()), op.hidden));
  return reshape(onnx_.node("Gather", {together, order}, name + ".gates"), name, extents);
}

}  // namespace lockstep::nn
