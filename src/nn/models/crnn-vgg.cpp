// SPDX-License-Identifier: Apache-2.0
#include "nn/models/text_layers.hpp"

// Names of tensors are EasyOCR's; its linear layers are 1×1 convolutions here.
namespace lockstep::nn::models {
namespace {

/// EasyOCR's second generation of readers ("english_g2"): convolutions, two bidirectional LSTMs with a linear layer
/// each, and a linear layer that scores the characters. Images are gray and 64 pixels high there. A step is 4 pixels
/// wide, and one of them gets lost at the edge.
/// @source Shi, Bai, Yao: "An End-to-End Trainable Neural Network for Image-based Sequence Recognition", TPAMI 2017
Graph make_crnn_vgg(const DataSpec& data) {
  Graph graph("crnn-vgg");
  graph.input(data.at("images"));
  int part = 0;
  const auto next = [&] { return "FeatureExtraction.ConvNet." + std::to_string(part++); };
  const auto add_convolution = [&](const Convolution& convolution) {
    graph.add(next(), convolution);
    if (!convolution.bias) graph.add(next(), BatchNorm{});
    graph.add(next(), Relu{});
  };
  const auto add_pool = [&](const Pair& window) { graph.add(next(), MaxPool{.kernel = window, .stride = window}); };
  add_convolution({.out_channels = 32, .padding = 1});
  add_pool(2);
  add_convolution({.out_channels = 64, .padding = 1});
  add_pool(2);
  add_convolution({.out_channels = 128, .padding = 1});
  add_convolution({.out_channels = 128, .padding = 1});
  add_pool({2, 1});
  add_convolution(without_bias(256, 3));
  add_convolution(without_bias(256, 3));
  add_pool({2, 1});
  add_convolution({.out_channels = 256, .kernel = 2});
  const Pair column{graph.shape(graph.last()).height, 1};
  graph.add("AdaptiveAvgPool", AveragePool{.kernel = column, .stride = column});
  for (const std::string name : {"SequenceModeling.0", "SequenceModeling.1"}) {
    graph.add(name + ".rnn", Lstm{.hidden = 256, .bidirectional = true});
    add_linear_at_steps(graph, name + ".linear", 256);
  }
  read_text(graph, data, "Prediction");
  return graph;
}

}  // namespace

/// Rates of the original are for Adadelta; these are those of `crnn`.
std::vector<ModelEntry> crnn_vgg() {
  return {ModelEntry{
      .name = "crnn-vgg",
      .make = make_crnn_vgg,
      .defaults = {.learning_rate = 0.05, .epochs = 5, .batch = 32, .decay = Decay::cosine, .warmup_epochs = 0.25},
      .workload = "text",
      .example = text_example({1, 48, 24})}};
}

}  // namespace lockstep::nn::models
