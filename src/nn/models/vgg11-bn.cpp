// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.hpp"
#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// Adds eight 3×3 convolutions with bias, batch norm and ReLU, and five 2×2 max pools between them.
void add_vgg_features(Graph& graph) {
  int layer = 0;
  const auto name = [&layer] { return "features." + std::to_string(layer++); };
  for (const std::int64_t channels : {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0}) {
    if (channels == 0) {
      graph.add(name(), MaxPool{});
      continue;
    }
    graph.add(name(), Convolution{.out_channels = channels, .kernel = 3, .padding = 1});
    graph.add(name(), BatchNorm{});
    graph.add(name(), Relu{});
  }
}

/// torchvision's vgg11_bn, the network of 11 layers: its features, an adaptive average pool to 7×7, and two hidden
/// layers of 4096 with dropout. For small images, the pool leaves 1×1 and hidden layers of 512 suffice, as usual on
/// CIFAR.
/// @source Simonyan, Zisserman: Very deep convolutional networks for large-scale image recognition, ICLR 2015, table 1
Graph make_vgg11_bn(const DataSpec& data) {
  const auto& [channels, height, width] = data.at("images").extent;
  if (std::min(height, width) < 32) {
    throw Error(ErrorCode::invalid_argument,
                "model 'vgg11-bn' halves its images five times and needs at least 32×32 pixels, not " +
                    std::to_string(height) + "×" + std::to_string(width));
  }
  const bool small = data.stem == Stem::cifar;
  const std::int64_t hidden = small ? 512 : 4096;
  Graph graph("vgg11-bn");
  graph.input(data.at("images"));
  add_vgg_features(graph);
  graph.add("avgpool", AdaptiveAveragePool{.height = small ? 1 : 7, .width = small ? 1 : 7});
  graph.add("classifier.0", Linear{.out_features = hidden});
  graph.add("classifier.1", Relu{});
  graph.add("classifier.2", Dropout{});
  graph.add("classifier.3", Linear{.out_features = hidden});
  graph.add("classifier.4", Relu{});
  graph.add("classifier.5", Dropout{});
  graph.add("classifier.6", Linear{.out_features = data.classes});
  classify(graph, data);
  return graph;
}

}  // namespace

std::vector<ModelEntry> vgg11_bn() {
  return {ModelEntry{.name = "vgg11-bn",
                     .make = make_vgg11_bn,
                     .defaults = {.learning_rate = 0.05,
                                  .momentum = 0.9,
                                  .weight_decay = 5e-4,
                                  .epochs = 30,
                                  .batch = 128,
                                  .decay = Decay::cosine,
                                  .warmup_epochs = 1.5},
                     .example = DataSpec::of_images(3, 32, 32, 10),
                     .usual_stem = Stem::by_extent}};
}

}  // namespace lockstep::nn::models
