// SPDX-License-Identifier: Apache-2.0
#include "nn/models/yolov5_layers.hpp"

namespace lockstep::nn::models {
namespace {

int add_silu_bottleneck(Graph& graph, const std::string& name, int in, bool has_shortcut) {
  const std::int64_t channels = graph.shape(in).channels;
  const int narrow = add_conv_silu(graph, name + ".cv1", in, channels);
  const int out = add_conv_silu(graph, name + ".cv2", narrow, channels, 3);
  return has_shortcut ? graph.add(name + ".add", Add{}, {in, out}) : out;
}

}  // namespace

int add_conv_silu(Graph& graph, const std::string& name, int in, const Convolution& options) {
  graph.add(name + ".conv", options, {in});
  graph.add(name + ".bn", BatchNorm{.epsilon = 1e-3, .momentum = 0.03});
  return graph.add(name + ".act", Pointwise{.kind = Pointwise::Kind::silu});
}

int add_conv_silu(Graph& graph, const std::string& name, int in, std::int64_t channels, std::int64_t kernel,
                  std::int64_t stride) {
  return add_conv_silu(graph, name, in, without_bias(channels, kernel, stride));
}

int add_c3(Graph& graph, const std::string& name, int in, std::int64_t channels, int bottlenecks, bool has_shortcut) {
  int first = add_conv_silu(graph, name + ".cv1", in, channels / 2);
  for (int i = 0; i < bottlenecks; ++i)
    first = add_silu_bottleneck(graph, name + ".m." + std::to_string(i), first, has_shortcut);
  const int second = add_conv_silu(graph, name + ".cv2", in, channels / 2);
  const int both = graph.add(name + ".concat", Concat{}, {first, second});
  return add_conv_silu(graph, name + ".cv3", both, channels);
}

int add_sppf(Graph& graph, const std::string& name, int in, std::int64_t channels) {
  std::vector<int> pooled{add_conv_silu(graph, name + ".cv1", in, graph.shape(in).channels / 2)};
  for (int i = 1; i <= 3; ++i)
    pooled.push_back(
        graph.add(name + ".m" + std::to_string(i), MaxPool{.kernel = 5, .stride = 1, .padding = 2}, {pooled.back()}));
  return add_conv_silu(graph, name + ".cv2", graph.add(name + ".concat", Concat{}, pooled), channels);
}

int upsample_and_join(Graph& graph, int number, int in, int with) {
  const int up = graph.add("model." + std::to_string(number), Resize{.scale = 2}, {in});
  return graph.add("model." + std::to_string(number + 1), Concat{}, {up, with});
}

}  // namespace lockstep::nn::models
