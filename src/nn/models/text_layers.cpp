// SPDX-License-Identifier: Apache-2.0
#include "nn/models/text_layers.hpp"

namespace lockstep::nn::models {

int add_sequence(Graph& graph) {
  const ops::Shape& columns = graph.shape(graph.last());
  return graph.add("sequence", Reshape{.channels = columns.channels * columns.height, .width = columns.width});
}

int add_linear_at_steps(Graph& graph, const std::string& name, std::int64_t features) {
  return graph.add(name, Convolution{.out_channels = features, .kernel = 1});
}

void read_text(Graph& graph, const DataSpec& data, const std::string& layer) {
  const int logits = add_linear_at_steps(graph, layer, data.classes + 1);
  graph.output("logits", logits, {.name = {}, .channels_last = true});
  const int targets = graph.input(data.at("targets"));
  const int target_lengths = graph.input(data.at("target_lengths"));
  graph.loss("loss", Ctc{.zero_infinity = true}, {logits, targets, target_lengths});
}

DataSpec text_example(const std::array<std::int64_t, 3>& images) {
  return {
      {{"images", images}, {"targets", {1, 1, 4}, Content::integer}, {"target_lengths", {1, 1, 1}, Content::integer}},
      4};
}

}  // namespace lockstep::nn::models
