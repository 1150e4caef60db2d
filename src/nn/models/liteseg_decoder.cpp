// SPDX-License-Identifier: Apache-2.0
#include "nn/models/liteseg_decoder.hpp"

namespace lockstep::nn::models {
namespace {

/// Adds "<name>._conv" and "<name>._batch_norm".
int add_conv_bn(Graph& graph, const std::string& name, int in, const Convolution& convolution) {
  graph.add(name + "._conv", convolution, {in});
  return graph.add(name + "._batch_norm", BatchNorm{});
}

int add_conv_relu(Graph& graph, const std::string& name, int in, const Convolution& convolution) {
  add_conv_bn(graph, name, in, convolution);
  return graph.add(name + ".relu", Relu{});
}

/// Adds a bilinear resize to the height and width of another value.
int add_resize_as(Graph& graph, const std::string& name, int in, const ops::Shape& as) {
  return graph.add(name, Resize{.height = as.height, .width = as.width, .mode = Interpolation::bilinear}, {in});
}

}  // namespace

int add_seg_context(Graph& graph, const std::string& name, int in) {
  constexpr std::int64_t channels = 128;
  int sum = -1;
  for (int i = 0; i < 3; ++i) {
    const std::string stage = name + ".stages." + std::to_string(i);
    const std::int64_t side = std::int64_t{1} << i;
    const int pooled = graph.add(stage + ".0", AdaptiveAveragePool{.height = side, .width = side}, {in});
    const int narrow = add_conv_relu(graph, stage + ".1", pooled, {.out_channels = channels, .kernel = 1});
    const int resized = add_resize_as(graph, stage + ".resize", narrow, graph.shape(in));
    sum = sum < 0 ? resized : graph.add(stage + ".add", Add{}, {sum, resized});
  }
  return add_conv_relu(graph, name + ".conv_out", sum, {.out_channels = channels, .kernel = 3, .padding = 1});
}

int add_seg_fusion(Graph& graph, const std::string& name, int fine, int coarse, std::int64_t channels) {
  const int x = add_conv_relu(graph, name + ".conv_x", fine, without_bias(graph.shape(coarse).channels, 3));
  const int y = add_resize_as(graph, name + ".resize", coarse, graph.shape(x));
  std::vector<int> maps;
  for (const auto& [of, value] : {std::pair(".x", x), std::pair(".y", y)}) {
    maps.push_back(graph.add(name + of + ".mean", ChannelPool{}, {value}));
    maps.push_back(graph.add(name + of + ".max", ChannelPool{.kind = ChannelPool::Kind::max}, {value}));
  }
  const int pooled = graph.add(name + ".pooled", Concat{}, maps);
  const int hidden = add_conv_relu(graph, name + ".conv_xy_atten.0", pooled, without_bias(2, 3));
  add_conv_bn(graph, name + ".conv_xy_atten.1", hidden, without_bias(1, 3));
  const int a = graph.add(name + ".attention", Pointwise{.kind = Pointwise::Kind::sigmoid});
  const int rest = graph.add(name + ".rest", Pointwise{.kind = Pointwise::Kind::affine, .slope = -1, .offset = 1}, {a});
  const int of_x = graph.add(name + ".of_x", Multiply{}, {x, a});
  const int of_y = graph.add(name + ".of_y", Multiply{}, {y, rest});
  const int mixed = graph.add(name + ".mixed", Add{}, {of_x, of_y});
  return add_conv_relu(graph, name + ".conv_out", mixed, without_bias(channels, 3));
}

int add_seg_head(Graph& graph, const DataSpec& data, int number, int in, std::int64_t channels) {
  const std::string name = "seg_heads." + std::to_string(number);
  const auto& [of_images, height, width] = data.at("images").extent;
  const int hidden = add_conv_relu(graph, name + ".conv", in, without_bias(channels, 3));
  const int logits = graph.add(name + ".conv_out", without_bias(data.classes, 1), {hidden});
  return add_resize_as(graph, name + ".resize", logits, {1, data.classes, height, width});
}

}  // namespace lockstep::nn::models
