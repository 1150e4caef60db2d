// SPDX-License-Identifier: Apache-2.0
#include "nn/models/blocks.hpp"

#include "lockstep/base/error.hpp"

namespace lockstep::nn::models {

Convolution without_bias(std::int64_t out_channels, std::int64_t kernel, std::int64_t stride) {
  return {.out_channels = out_channels, .kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false};
}

int add_normalized(Graph& graph, const std::string& name, int number, const Convolution& convolution) {
  graph.add(name + ".conv" + std::to_string(number), convolution);
  return graph.add(name + ".bn" + std::to_string(number), BatchNorm{});
}

void add_shortcut(Graph& graph, const std::string& name, int in, std::int64_t stride) {
  const int residual = graph.last();
  const ops::Shape shape = graph.shape(residual);
  int shortcut = in;
  if (graph.shape(in) != shape) {
    graph.add(name + ".downsample.0", without_bias(shape.channels, 1, stride), {in});
    shortcut = graph.add(name + ".downsample.1", BatchNorm{});
  }
  graph.add(name + ".add", Add{}, {residual, shortcut});
  graph.add(name + ".relu", Relu{});
}

void add_basic_block(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride) {
  const int in = graph.last();
  add_normalized(graph, name, 1, without_bias(channels, 3, stride));
  graph.add(name + ".relu1", Relu{});
  add_normalized(graph, name, 2, without_bias(channels, 3));
  add_shortcut(graph, name, in, stride);
}

void add_residual_stem(Graph& graph, const DataSpec& data, bool small) {
  graph.input(data.at("images"));
  graph.add("conv1", small ? without_bias(64, 3) : without_bias(64, 7, 2));
  graph.add("bn1", BatchNorm{});
  graph.add("relu", Relu{});
  if (!small) graph.add("maxpool", MaxPool{.kernel = 3, .stride = 2, .padding = 1});
}

void add_residual_head(Graph& graph, const DataSpec& data) {
  graph.add("avgpool", GlobalAveragePool{});
  graph.add("fc", Linear{.out_features = data.classes});
  classify(graph, data);
}

int add_conv_block(Graph& graph, const std::string& name, int first, std::int64_t channels, std::int64_t stride) {
  const auto number = [&](int i) { return name + "." + std::to_string(first + i); };
  graph.add(number(0), without_bias(channels, 3, stride));
  graph.add(number(1), BatchNorm{});
  return graph.add(number(2), Relu{});
}

int add_two_blocks(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t stride) {
  add_conv_block(graph, name, 0, channels, stride);
  return add_conv_block(graph, name, 3, channels);
}

void require_multiple(const DataSpec& data, const std::string& model, std::int64_t rows, std::int64_t columns) {
  const auto& [channels, height, width] = data.at("images").extent;
  if (height % rows == 0 && width % columns == 0) return;
  const auto text = [](std::int64_t a, std::int64_t b) { return std::to_string(a) + "×" + std::to_string(b); };
  throw Error(ErrorCode::invalid_argument, "model '" + model + "' needs images of a multiple of " +
                                               text(rows, columns) + " pixels, not " + text(height, width));
}

}  // namespace lockstep::nn::models
