// SPDX-License-Identifier: Apache-2.0
#include "nn/models/stdc.hpp"

namespace lockstep::nn::models {
namespace {

int add_stdc_conv(Graph& graph, const std::string& name, int in, const Convolution& convolution) {
  graph.add(name + ".conv", convolution, {in});
  graph.add(name + ".bn", BatchNorm{});
  return graph.add(name + ".relu", Relu{});
}

/// Adds the part of a block that halves height and width: a depthwise convolution with batch norm.
int add_stdc_halving(Graph& graph, const std::string& name, int in) {
  Convolution depthwise = without_bias(graph.shape(in).channels, 3, 2);
  depthwise.groups = depthwise.out_channels;
  graph.add(name + ".0", depthwise, {in});
  return graph.add(name + ".1", BatchNorm{});
}

/// Adds a block that concatenates the results of four convolutions in a row, of 1/2, 1/4, 1/8 and 1/8 of the channels.
int add_stdc_block(Graph& graph, const std::string& name, int in, std::int64_t channels, std::int64_t stride) {
  const auto number = [&](int i) { return name + ".conv_list." + std::to_string(i); };
  int first = add_stdc_conv(graph, number(0), in, without_bias(channels / 2, 1));
  int last = first;
  if (stride == 2) {
    last = add_stdc_halving(graph, name + ".avd_layer", first);
    first = graph.add(name + ".skip", AveragePool{.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false},
                      {first});
  }
  std::vector<int> all{first};
  for (int i = 1; i < 4; ++i) {
    last = add_stdc_conv(graph, number(i), last, without_bias(channels / (i == 1 ? 4 : 8), 3));
    all.push_back(last);
  }
  return graph.add(name + ".concat", Concat{}, all);
}

}  // namespace

std::array<int, 3> add_stdc1(Graph& graph, int images) {
  const auto number = [](int i) { return "backbone.features." + std::to_string(i); };
  int last = add_stdc_conv(graph, number(0), images, without_bias(32, 3, 2));
  last = add_stdc_conv(graph, number(1), last, without_bias(64, 3, 2));
  std::array<int, 3> maps{};
  for (int level = 0; level < 3; ++level) {
    const std::int64_t channels = std::int64_t{256} << level;
    last = add_stdc_block(graph, number(2 + 2 * level), last, channels, 2);
    last = add_stdc_block(graph, number(3 + 2 * level), last, channels, 1);
    maps[static_cast<std::size_t>(level)] = last;
  }
  return maps;
}

}  // namespace lockstep::nn::models
