// SPDX-License-Identifier: Apache-2.0

#include "lockstep/base/error.hpp"
#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// The residual networks of 6n + 2 layers for small images: 3×3 convolution, then three stages of n basic blocks with
/// 16, 32 and 64 channels, global average pool, linear. If a block changes the shape, its shortcut is a 1×1 convolution
/// with batch norm (option B).
/// @source He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016, section 4.2
Graph make_small_resnet(const std::string& name, int blocks, const DataSpec& data) {
  const auto& [channels, height, width] = data.at("images").extent;
  if (height != width) {
    throw Error(ErrorCode::invalid_argument, "model '" + name + "' needs square images, not " + std::to_string(height) +
                                                 "×" + std::to_string(width));
  }
  Graph network(name);
  network.input(data.at("images"));
  network.add("conv1", without_bias(16, 3));
  network.add("bn1", BatchNorm{});
  network.add("relu1", Relu{});
  for (int stage = 1; stage <= 3; ++stage) {
    for (int block = 0; block < blocks; ++block) {
      add_basic_block(network, "layer" + std::to_string(stage) + "." + std::to_string(block), std::int64_t{8} << stage,
                      stage > 1 && block == 0 ? 2 : 1);
    }
  }
  const std::int64_t side = network.shape(network.last()).height;
  network.add("avgpool", AveragePool{.kernel = side, .stride = side});
  network.add("fc", Linear{.out_features = data.classes});
  classify(network, data);
  return network;
}

ModelEntry small_resnet(int layers) {
  const std::string name = "resnet" + std::to_string(layers);
  const int blocks = (layers - 2) / 6;
  return {.name = name,
          .make = [name, blocks](const DataSpec& data) { return make_small_resnet(name, blocks, data); },
          .defaults = {.learning_rate = 0.1,
                       .momentum = 0.9,
                       .nesterov = true,
                       .weight_decay = 1e-4,
                       .epochs = 20,
                       .batch = 128,
                       .decay = Decay::cosine,
                       .warmup_epochs = 1}};
}

}  // namespace

std::vector<ModelEntry> resnet_cifar() {
  return {small_resnet(20), small_resnet(32), small_resnet(44), small_resnet(56)};
}

}  // namespace lockstep::nn::models
