// SPDX-License-Identifier: Apache-2.0
#include <array>

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

/// Adds a residual block of this number of channels, of which a bottleneck block makes four times as many.
using AddBlock = void (*)(Graph&, const std::string& name, std::int64_t channels, std::int64_t stride);

/// torchvision's residual networks for images of any size: a stem, then four stages of residual blocks with 64, 128,
/// 256 and 512 channels, mean, linear. Each stage but the first halves height and width. torchvision's stem is a 7×7
/// convolution and a max pool, which reduce height and width to a quarter; the one for small images a 3×3 convolution.
/// @source He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016, table 1
Graph make_resnet(const std::string& name, AddBlock add_block, const std::array<int, 4>& blocks, const DataSpec& data) {
  Graph graph(name);
  add_residual_stem(graph, data, data.stem == Stem::cifar);
  for (int stage = 1; stage <= 4; ++stage) {
    for (int block = 0; block < blocks[static_cast<std::size_t>(stage) - 1]; ++block) {
      add_block(graph, "layer" + std::to_string(stage) + "." + std::to_string(block), std::int64_t{32} << stage,
                stage > 1 && block == 0 ? 2 : 1);
    }
  }
  add_residual_head(graph, data);
  return graph;
}

ModelEntry resnet_of(const std::string& name, AddBlock add_block, const std::array<int, 4>& blocks) {
  return {.name = name,
          .make = [=](const DataSpec& data) { return make_resnet(name, add_block, blocks, data); },
          .defaults = {.learning_rate = 0.1,
                       .momentum = 0.9,
                       .nesterov = true,
                       .weight_decay = 5e-4,
                       .epochs = 30,
                       .batch = 128,
                       .decay = Decay::cosine,
                       .warmup_epochs = 1.5},
          .example = DataSpec::of_images(3, 9, 9, 10),  // the smallest images that leave 2×2 for the last stage
          .usual_stem = Stem::by_extent};
}

/// It is for photographs, so it has torchvision's stem unless told otherwise.
ModelEntry resnet50() {
  ModelEntry entry = resnet_of("resnet50", add_bottleneck, {3, 4, 6, 3});
  entry.defaults = {.learning_rate = 0.1,
                    .momentum = 0.9,
                    .weight_decay = 1e-4,
                    .epochs = 90,
                    .batch = 256,
                    .decay = Decay::cosine,
                    .warmup_epochs = 4.5};
  entry.example = DataSpec::of_images(3, 33, 33, 10);  // the smallest images that leave 2×2 for the last stage
  entry.usual_stem = Stem::imagenet;
  return entry;
}

}  // namespace

std::vector<ModelEntry> resnet() {
  return {resnet_of("resnet18", add_basic_block, {2, 2, 2, 2}), resnet_of("resnet34", add_basic_block, {3, 4, 6, 3}),
          resnet50()};
}

}  // namespace lockstep::nn::models
