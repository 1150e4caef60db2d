// SPDX-License-Identifier: Apache-2.0

#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// The residual network of 18 layers: a stem, then four stages of two basic blocks with 64, 128, 256 and 512 channels,
/// mean, linear. Each stage but the first halves height and width. Images of less than 64 pixels get the stem that is
/// usual on CIFAR, a 3×3 convolution; others get torchvision's.
/// @source He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016, table 1
Graph make_resnet18(const DataSpec& data) {
  Graph graph("resnet18");
  add_residual_stem(graph, data, small_images(data));
  for (int stage = 1; stage <= 4; ++stage) {
    for (int block = 0; block < 2; ++block) {
      add_basic_block(graph, "layer" + std::to_string(stage) + "." + std::to_string(block), std::int64_t{32} << stage,
                      stage > 1 && block == 0 ? 2 : 1);
    }
  }
  add_residual_head(graph, data);
  return graph;
}

}  // namespace

ModelEntry resnet18() {
  return {.name = "resnet18",
          .make = make_resnet18,
          .defaults = {.learning_rate = 0.1,
                       .momentum = 0.9,
                       .nesterov = true,
                       .weight_decay = 5e-4,
                       .epochs = 30,
                       .batch = 128,
                       .decay = Decay::cosine,
                       .warmup_epochs = 1.5},
          .example = DataSpec::of_images(3, 9, 9, 10)};  // the smallest images that leave 2×2 for the last stage
}

}  // namespace lockstep::nn::models
