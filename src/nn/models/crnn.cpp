// SPDX-License-Identifier: Apache-2.0

#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// A network that reads a line of text: convolutions, whose columns become the steps of a sequence, a bidirectional
/// LSTM, a linear layer at each step, and CTC loss, whose blank comes after the classes. A step is 4 pixels wide.
/// "steps" has the number of steps of each image, "targets" the text, and "target_lengths" the length of the text.
/// @source Shi, Bai, Yao: "An End-to-End Trainable Neural Network for Image-based Sequence Recognition", TPAMI 2017
Graph make_crnn(const DataSpec& data) {
  require_multiple(data, "crnn", 8, 4);
  Graph graph("crnn");
  graph.input(data.at("images"));
  add_conv_block(graph, "conv1", 0, 16);
  graph.add("pool1", MaxPool{});
  add_conv_block(graph, "conv2", 0, 32);
  graph.add("pool2", MaxPool{});
  add_conv_block(graph, "conv3", 0, 64);
  const int columns = graph.add("pool3", MaxPool{.kernel = {2, 1}, .stride = {2, 1}});
  // The channels and rows of a column are the features of its step.
  const ops::Shape shape = graph.shape(columns);
  const int sequence = graph.add("sequence", Reshape{.channels = shape.channels * shape.height, .width = shape.width});
  const int steps = graph.input(data.at("steps"));
  graph.add("lstm", Lstm{.hidden = 64, .bidirectional = true}, {sequence, steps});
  // The 1×1 convolution applies the same linear layer to each step.
  const int logits = graph.add("fc", Convolution{.out_channels = data.classes + 1, .kernel = 1});
  graph.output("logits", logits);
  const int targets = graph.input(data.at("targets"));
  const int target_lengths = graph.input(data.at("target_lengths"));
  graph.loss("loss", Ctc{.blank = static_cast<std::int32_t>(data.classes), .zero_infinity = true},
             {logits, targets, target_lengths, steps});
  return graph;
}

}  // namespace

std::vector<ModelEntry> crnn() {
  DataSpec example{{{"images", {1, 8, 24}},
                    {"targets", {1, 1, 4}, Content::integer},
                    {"target_lengths", {1, 1, 1}, Content::integer},
                    {"steps", {1, 1, 1}, Content::integer}},
                   5};
  return {ModelEntry{
      .name = "crnn",
      .make = make_crnn,
      .defaults = {.learning_rate = 0.05, .epochs = 5, .batch = 32, .decay = Decay::cosine, .warmup_epochs = 0.25},
      .workload = "text",
      .example = std::move(example)}};
}

}  // namespace lockstep::nn::models
