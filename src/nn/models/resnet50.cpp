// SPDX-License-Identifier: Apache-2.0

#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// Adds a bottleneck block: 1×1 to `channels`, 3×3 with the stride (as in torchvision), 1×1 to four times as many.
void add_bottleneck(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride) {
  const int in = graph.last();
  add_normalized(graph, name, 1, without_bias(channels, 1));
  graph.add(name + ".relu1", Relu{});
  add_normalized(graph, name, 2, without_bias(channels, 3, stride));
  graph.add(name + ".relu2", Relu{});
  add_normalized(graph, name, 3, without_bias(4 * channels, 1));
  add_shortcut(graph, name, in, stride);
}

/// torchvision's residual network of 50 layers, for images of any size: 7×7 convolution and max pool, which reduce
/// height and width to a quarter, then stages of 3, 4, 6 and 3 bottleneck blocks with 256, 512, 1024 and 2048 channels,
/// mean, linear. Each stage but the first halves height and width.
/// @source He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016, table 1
Graph make_resnet50(const DataSpec& data) {
  Graph graph("resnet50");
  add_residual_stem(graph, data, false);
  int stage = 0;
  for (const int blocks : {3, 4, 6, 3}) {
    ++stage;
    for (int block = 0; block < blocks; ++block) {
      add_bottleneck(graph, "layer" + std::to_string(stage) + "." + std::to_string(block), std::int64_t{32} << stage,
                     stage > 1 && block == 0 ? 2 : 1);
    }
  }
  add_residual_head(graph, data);
  return graph;
}

}  // namespace

ModelEntry resnet50() {
  return {.name = "resnet50",
          .make = make_resnet50,
          .defaults = {.learning_rate = 0.1,
                       .momentum = 0.9,
                       .weight_decay = 1e-4,
                       .epochs = 90,
                       .batch = 256,
                       .decay = Decay::cosine,
                       .warmup_epochs = 4.5},
          .example = DataSpec::of_images(3, 33, 33, 10)};  // the smallest images that leave 2×2 for the last stage
}

}  // namespace lockstep::nn::models
