// SPDX-License-Identifier: Apache-2.0
#include "nn/models/mobilenet_v3.hpp"

#include <algorithm>
#include <initializer_list>

namespace lockstep::nn::models {
namespace {

enum class Nonlinearity { none, relu, hard_swish };

/// A row of the paper's table, of full width. The stride is that of the height.
struct Mv3Block {
  std::int64_t kernel, expanded, channels;
  bool is_gated;
  Nonlinearity nonlinearity;
  std::int64_t stride;
};

constexpr std::initializer_list<Mv3Block> mv3_blocks = {
    {3, 16, 16, false, Nonlinearity::relu, 1},        {3, 64, 24, false, Nonlinearity::relu, 2},
    {3, 72, 24, false, Nonlinearity::relu, 1},        {5, 72, 40, true, Nonlinearity::relu, 2},
    {5, 120, 40, true, Nonlinearity::relu, 1},        {5, 120, 40, true, Nonlinearity::relu, 1},
    {3, 240, 80, false, Nonlinearity::hard_swish, 1}, {3, 200, 80, false, Nonlinearity::hard_swish, 1},
    {3, 184, 80, false, Nonlinearity::hard_swish, 1}, {3, 184, 80, false, Nonlinearity::hard_swish, 1},
    {3, 480, 112, true, Nonlinearity::hard_swish, 1}, {3, 672, 112, true, Nonlinearity::hard_swish, 1},
    {5, 672, 160, true, Nonlinearity::hard_swish, 2}, {5, 960, 160, true, Nonlinearity::hard_swish, 1},
    {5, 960, 160, true, Nonlinearity::hard_swish, 1}};

/// Returns half as many channels, rounded to a multiple of 8.
std::int64_t half_width(std::int64_t channels) { return std::max<std::int64_t>(8, (channels / 2 + 4) / 8 * 8); }

/// Adds "<name>.conv", "<name>.bn" and the function.
int add_mv3_conv(Graph& graph, const std::string& name, const Convolution& convolution, Nonlinearity nonlinearity) {
  graph.add(name + ".conv", convolution);
  const int normalized = graph.add(name + ".bn", BatchNorm{});
  if (nonlinearity == Nonlinearity::none) return normalized;
  if (nonlinearity == Nonlinearity::relu) return graph.add(name + ".act", Relu{});
  return graph.add(name + ".act", Pointwise{.kind = Pointwise::Kind::hard_swish});
}

/// Adds a gate for each channel, which follows from the means of all (squeeze and excitation).
void add_mv3_gate(Graph& graph, const std::string& name) {
  const int in = graph.last();
  const std::int64_t channels = graph.shape(in).channels;
  graph.add(name + ".avg_pool", GlobalAveragePool{});
  graph.add(name + ".conv1", Convolution{.out_channels = channels / 4, .kernel = 1});
  graph.add(name + ".relu", Relu{});
  graph.add(name + ".conv2", Convolution{.out_channels = channels, .kernel = 1});
  const int gate =
      graph.add(name + ".gate", Pointwise{.kind = Pointwise::Kind::hard_sigmoid, .slope = 0.2, .offset = 0.5});
  graph.add(name + ".gated", Multiply{}, {in, gate});
}

void add_mv3_block(Graph& graph, const std::string& name, const Mv3Block& block) {
  const int in = graph.last();
  const std::int64_t expanded = half_width(block.expanded);
  add_mv3_conv(graph, name + ".expand_conv", without_bias(expanded, 1), block.nonlinearity);
  Convolution depthwise = without_bias(expanded, block.kernel);
  depthwise.groups = expanded;
  depthwise.stride = {block.stride, 1};
  add_mv3_conv(graph, name + ".bottleneck_conv", depthwise, block.nonlinearity);
  if (block.is_gated) add_mv3_gate(graph, name + ".mid_se");
  const int out =
      add_mv3_conv(graph, name + ".linear_conv", without_bias(half_width(block.channels), 1), Nonlinearity::none);
  if (graph.shape(in) == graph.shape(out)) graph.add(name + ".add", Add{}, {out, in});
}

}  // namespace

int add_mobilenet_v3_for_text(Graph& graph) {
  add_mv3_conv(graph, "backbone.conv1", without_bias(half_width(16), 3, 2), Nonlinearity::hard_swish);
  int number = 0;
  for (const Mv3Block& block : mv3_blocks) add_mv3_block(graph, "backbone.blocks." + std::to_string(number++), block);
  return add_mv3_conv(graph, "backbone.conv2", without_bias(half_width(960), 1), Nonlinearity::hard_swish);
}

}  // namespace lockstep::nn::models
