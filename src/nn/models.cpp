// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

constexpr std::array<std::string_view, 2> names{"lenet", "resnet20"};

[[noreturn]] void refuse_name(std::string_view name) {
  throw Error(ErrorCode::invalid_argument, unknown("model", name, names));
}

Convolution without_bias(std::int64_t out_channels, std::int64_t kernel, std::int64_t stride) {
  return {.out_channels = out_channels, .kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false};
}

/// Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes.
void add_basic_block(Network& network, const std::string& name, std::int64_t channels, std::int64_t stride) {
  const int in = static_cast<int>(network.layers().size()) - 1;
  network.add(name + ".conv1", without_bias(channels, 3, stride));
  network.add(name + ".bn1", BatchNorm{});
  network.add(name + ".relu1", Relu{});
  network.add(name + ".conv2", without_bias(channels, 3, 1));
  const int residual = network.add(name + ".bn2", BatchNorm{});
  int shortcut = in;
  if (network.shape(in) != network.shape(residual)) {
    network.add(name + ".downsample.0", without_bias(channels, 1, stride), {in});
    shortcut = network.add(name + ".downsample.1", BatchNorm{});
  }
  network.add(name + ".add", Add{}, {residual, shortcut});
  network.add(name + ".relu2", Relu{});
}

}  // namespace

Network lenet(ops::Shape image, std::int64_t classes) {
  if (std::min(image.height, image.width) < 4) {
    throw Error(ErrorCode::invalid_argument,
                "model 'lenet' halves its images twice and needs at least 4×4 pixels, not " +
                    std::to_string(image.height) + "×" + std::to_string(image.width));
  }
  Network network("lenet", image, classes);
  network.add("conv1", Convolution{.out_channels = 32, .kernel = 3, .padding = 1});
  network.add("relu1", Relu{});
  network.add("pool1", MaxPool{});
  network.add("conv2", Convolution{.out_channels = 64, .kernel = 3, .padding = 1});
  network.add("relu2", Relu{});
  network.add("pool2", MaxPool{});
  network.add("fc1", Linear{.out_features = 128});
  network.add("relu3", Relu{});
  network.add("fc2", Linear{.out_features = classes});
  return network;
}

Network resnet20(ops::Shape image, std::int64_t classes) {
  if (image.height != image.width) {
    throw Error(ErrorCode::invalid_argument, "model 'resnet20' needs square images, not " +
                                                 std::to_string(image.height) + "×" + std::to_string(image.width));
  }
  Network network("resnet20", image, classes);
  network.add("conv1", without_bias(16, 3, 1));
  network.add("bn1", BatchNorm{});
  network.add("relu1", Relu{});
  for (int stage = 1; stage <= 3; ++stage) {
    for (int block = 0; block < 3; ++block) {
      add_basic_block(network, "layer" + std::to_string(stage) + "." + std::to_string(block), std::int64_t{8} << stage,
                      stage > 1 && block == 0 ? 2 : 1);
    }
  }
  const std::int64_t side = network.layers().back().output.height;
  network.add("avgpool", AveragePool{{.kernel = side, .stride = side}});
  network.add("fc", Linear{.out_features = classes});
  return network;
}

std::span<const std::string_view> model_names() { return names; }

Network make_model(std::string_view name, ops::Shape image, std::int64_t classes) {
  if (name == "lenet") return fuse_activations(lenet(image, classes));
  if (name == "resnet20") return fuse_activations(resnet20(image, classes));
  refuse_name(name);
}

Defaults defaults_for(std::string_view model) {
  if (model == "lenet") {
    return {.learning_rate = 0.05,
            .momentum = 0.9,
            .epochs = 3,
            .batch = 128,
            .decay = Decay::cosine,
            .warmup_fraction = 0.05};
  }
  if (model == "resnet20") {
    return {.learning_rate = 0.1,
            .momentum = 0.9,
            .nesterov = true,
            .weight_decay = 1e-4,
            .epochs = 20,
            .batch = 128,
            .decay = Decay::cosine,
            .warmup_fraction = 0.05};
  }
  refuse_name(model);
}

}  // namespace lockstep::nn
