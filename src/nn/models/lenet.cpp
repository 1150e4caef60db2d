// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.hpp"
#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// The layers are conv 32 – pool – conv 64 – pool – fc 128 – fc `classes`. Convolutions have 3×3 kernels with padding
/// 1, pools are 2×2 max pools, and ReLU follows both convolutions and the first linear layer.
Graph make_lenet(const DataSpec& data) {
  const auto& [channels, height, width] = data.at("images").extent;
  if (std::min(height, width) < 4) {
    throw Error(ErrorCode::invalid_argument,
                "model 'lenet' halves its images twice and needs at least 4×4 pixels, not " + std::to_string(height) +
                    "×" + std::to_string(width));
  }
  Graph network("lenet");
  network.input(data.at("images"));
  network.add("conv1", Convolution{.out_channels = 32, .kernel = 3, .padding = 1});
  network.add("relu1", Relu{});
  network.add("pool1", MaxPool{});
  network.add("conv2", Convolution{.out_channels = 64, .kernel = 3, .padding = 1});
  network.add("relu2", Relu{});
  network.add("pool2", MaxPool{});
  network.add("fc1", Linear{.out_features = 128});
  network.add("relu3", Relu{});
  network.add("fc2", Linear{.out_features = data.classes});
  classify(network, data);
  return network;
}

}  // namespace

std::vector<ModelEntry> lenet() {
  return {ModelEntry{.name = "lenet",
                     .make = make_lenet,
                     .defaults = {.learning_rate = 0.05,
                                  .momentum = 0.9,
                                  .epochs = 3,
                                  .batch = 128,
                                  .decay = Decay::cosine,
                                  .warmup_epochs = 0.15}}};
}

}  // namespace lockstep::nn::models
