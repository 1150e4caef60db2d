// SPDX-License-Identifier: Apache-2.0
#include "nn/onnx/onnx.hpp"

#include <algorithm>
#include <cstdint>

#include "lockstep/base/error.hpp"
#include "lockstep/base/version.hpp"
#include "nn/onnx/onnx_nodes.hpp"

namespace lockstep::nn {
namespace {

constexpr std::int64_t ir_version = 8;
constexpr std::int64_t operator_set = 18;

/// Returns for each value whether an output is computed from it.
std::vector<bool> needed_values(const Graph& graph) {
  std::vector<bool> is_needed(graph.values().size());
  for (const Output& output : graph.outputs()) is_needed[static_cast<std::size_t>(output.value)] = true;
  std::for_each(graph.nodes().rbegin(), graph.nodes().rend(), [&](const Node& node) {
    if (node.output < 0 || !is_needed[static_cast<std::size_t>(node.output)]) return;
    for (const int input : node.inputs) is_needed[static_cast<std::size_t>(input)] = true;
  });
  return is_needed;
}

/// @throws Error{unsupported}
void require_size(const Graph& graph) {
  constexpr std::int64_t most_bytes = (std::int64_t{2} << 30) - (std::int64_t{64} << 20);  // some for the nodes
  const std::int64_t bytes = 4 * (graph.parameters().count().value + graph.state().count().value);
  if (bytes < most_bytes) return;
  throw Error(ErrorCode::unsupported, "model '" + graph.name() + "' has " + std::to_string(bytes) +
                                          " bytes of weights, and a file of ONNX holds less than 2 GiB");
}

/// Adds what makes a normalized input of images from 0 to 1. @return its name
std::string normalized(OnnxGraph& onnx, const std::string& input, const Normalization& numbers) {
  const OnnxDims dims{1, static_cast<std::int64_t>(numbers.mean.size()), 1, 1};
  const std::vector<float> mean(numbers.mean.begin(), numbers.mean.end());
  const std::vector<float> deviation(numbers.deviation.begin(), numbers.deviation.end());
  const std::string centered =
      onnx.node("Sub", {input, onnx.constant(input + ".mean", dims, mean)}, input + ".centered");
  return onnx.node("Div", {centered, onnx.constant(input + ".deviation", dims, deviation)}, input + ".normalized");
}

}  // namespace

std::string to_onnx(const Graph& graph, const ModelDescription& description, const WeightsOf& weights) {
  require_size(graph);
  const std::vector<bool> is_needed = needed_values(graph);
  OnnxGraph onnx(graph.name());
  OnnxNodes nodes(graph, onnx, weights);
  for (int value = 0; value <= graph.last(); ++value) {
    if (!is_needed[static_cast<std::size_t>(value)]) continue;
    const Value& of = graph.values()[static_cast<std::size_t>(value)];
    if (of.producer >= 0) {
      nodes.add(graph.nodes()[static_cast<std::size_t>(of.producer)]);
      continue;
    }
    if (of.content != Content::real) {
      if (of.shape.count() != 1)
        throw Error(ErrorCode::unsupported,
                    "model '" + graph.name() + "' reads integers, '" + of.name + "', which the export to ONNX lacks");
      onnx.input_of_integers(of.name);
      nodes.name(value, of.name);
      continue;
    }
    onnx.input(of.name, {0, of.shape.channels, of.shape.height, of.shape.width});
    const bool is_normalized = of.name == "images" && description.images.has_value();
    nodes.name(value, is_normalized ? normalized(onnx, of.name, *description.images) : of.name);
  }
  nodes.add_outputs();
  ProtobufMessage model;
  model.integer(1, ir_version).text(2, "lockstep").text(3, version());
  model.message(8, ProtobufMessage().text(1, "").integer(2, operator_set));
  for (const auto& [name, text] : to_metadata(description))
    model.message(14, ProtobufMessage().text(1, name).text(2, text));
  return model.message(7, onnx.message()).bytes();
}

}  // namespace lockstep::nn
