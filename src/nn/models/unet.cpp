// SPDX-License-Identifier: Apache-2.0

#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// Adds a decoder level: "<name>.up" doubles the extent of the last value, the encoder's value of that extent is
/// concatenated, and two blocks follow.
int add_decoder(Graph& graph, const std::string& name, int skipped, std::int64_t channels) {
  const int up = graph.add(name + ".up", TransposedConvolution{.out_channels = channels, .kernel = 2, .stride = 2});
  graph.add(name + ".concat", Concat{}, {skipped, up});
  return add_two_blocks(graph, name, channels);
}

/// A segmentation network: an encoder of three levels, a decoder, and skip connections between them. Targets are
/// "labels", the class of each pixel. Convolutions have padding and batch norm, and a quarter of the paper's channels
/// or less.
/// @source Ronneberger, Fischer, Brox: U-Net, MICCAI 2015; for the dice loss Milletari et al., "V-Net", 3DV 2016
Graph make_unet(const DataSpec& data) {
  require_multiple(data, "unet", 8, 8);
  Graph graph("unet");
  graph.input(data.at("images"));
  const int whole = add_two_blocks(graph, "encoder1", 16);
  graph.add("pool1", MaxPool{});
  const int half = add_two_blocks(graph, "encoder2", 32);
  graph.add("pool2", MaxPool{});
  const int quarter = add_two_blocks(graph, "encoder3", 64);
  graph.add("pool3", MaxPool{});
  add_two_blocks(graph, "bottom", 64);
  add_decoder(graph, "decoder3", quarter, 64);
  add_decoder(graph, "decoder2", half, 32);
  add_decoder(graph, "decoder1", whole, 16);
  const int logits = graph.add("head", Convolution{.out_channels = data.classes, .kernel = 1});
  graph.output("logits", logits);
  const int labels = graph.input(data.at("labels"));
  graph.loss("pixels", CrossEntropy{}, {logits, labels}, 1, Normalizer::weight);
  graph.loss("dice", Dice{.by_label = true}, {logits, labels}, 0.25, Normalizer::weight);
  return graph;
}

}  // namespace

std::vector<ModelEntry> unet() {
  DataSpec example{{{"images", {3, 16, 16}}, {"labels", {1, 16, 16}, Content::integer}}, 3};
  return {ModelEntry{
      .name = "unet",
      .make = make_unet,
      .defaults = {.learning_rate = 0.05, .epochs = 10, .batch = 16, .decay = Decay::cosine, .warmup_epochs = 0.5},
      .workload = "segmentation",
      .example = std::move(example)}};
}

}  // namespace lockstep::nn::models
