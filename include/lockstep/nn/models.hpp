// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/nn/learning_rate.hpp"
#include "lockstep/nn/network.hpp"

namespace lockstep::nn {

/// conv 32 – pool – conv 64 – pool – fc 128 – fc `classes`: 3×3 kernels with padding 1, ReLU after both convolutions
/// and the first linear layer, 2×2 max pools.
/// @throws Error{invalid_argument} if a side of the image is shorter than 4
Network lenet(ops::Shape image, std::int64_t classes);

/// The residual network of 20 layers for small images: 3×3 convolution, then three stages of three basic blocks with
/// 16, 32 and 64 channels, global average pool, linear. Where a block changes the shape its shortcut is a 1×1
/// convolution with batch norm (option B).
/// @throws Error{invalid_argument} if the image is not square
/// @source He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016, section 4.2
Network resnet20(ops::Shape image, std::int64_t classes);

/// The names that `make_model` knows.
std::span<const std::string_view> model_names();

/// The model of that name, with its activations fused.
/// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list
Network make_model(std::string_view name, ops::Shape image, std::int64_t classes);

/// Recommended hyper-parameters. `batch` is the total over all ranks.
struct Defaults {
  double learning_rate = 0.05;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  std::int64_t epochs = 3;
  std::int64_t batch = 128;
  Decay decay = Decay::constant;
  double warmup_fraction = 0;
};

/// @throws Error{invalid_argument} as `make_model`
Defaults defaults_for(std::string_view model);

}  // namespace lockstep::nn
