// SPDX-License-Identifier: Apache-2.0

#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

constexpr Pointwise relu6{.kind = Pointwise::Kind::relu6};

/// Adds "<name>.0" to "<name>.2": a convolution, batch norm, ReLU6.
void add_activated(Graph& graph, const std::string& name, const Convolution& convolution) {
  graph.add(name + ".0", convolution);
  graph.add(name + ".1", BatchNorm{});
  graph.add(name + ".2", relu6);
}

/// Adds an inverted residual: 1×1 to `expansion` times as many channels, 3×3 depthwise, 1×1 to `out` channels without
/// activation. The input is added if it has the same shape.
void add_inverted_residual(Graph& graph, const std::string& name, std::int64_t expansion, std::int64_t out,
                           std::int64_t stride) {
  const int in = graph.last();
  const std::int64_t wide = graph.shape(in).channels * expansion;
  int part = 0;
  const auto next = [&] { return name + ".conv." + std::to_string(part++); };
  if (expansion != 1) add_activated(graph, next(), without_bias(wide, 1));
  Convolution depthwise = without_bias(wide, 3, stride);
  depthwise.groups = wide;
  add_activated(graph, next(), depthwise);
  graph.add(next(), without_bias(out, 1));
  const int residual = graph.add(next(), BatchNorm{});
  if (graph.shape(in) == graph.shape(residual)) graph.add(name + ".add", Add{}, {residual, in});
}

/// torchvision's MobileNet V2 of width 1: a stem, 17 inverted residuals, 1×1 to 1280 channels, mean, dropout, linear.
/// It halves height and width five times. With the stem for small images, the first convolution and the first halving
/// after it keep the extent.
/// @source Sandler et al.: MobileNetV2: Inverted residuals and linear bottlenecks, CVPR 2018, table 2
Graph make_mobilenet_v2(const DataSpec& data) {
  struct Stage {
    std::int64_t expansion, channels, blocks, stride;
  };
  const std::int64_t early = data.stem == Stem::cifar ? 1 : 2;
  Graph graph("mobilenet-v2");
  graph.input(data.at("images"));
  add_activated(graph, "features.0", without_bias(32, 3, early));
  int block = 0;
  for (const Stage& stage : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, early}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                             Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      add_inverted_residual(graph, "features." + std::to_string(++block), stage.expansion, stage.channels,
                            i == 0 ? stage.stride : 1);
    }
  }
  add_activated(graph, "features.18", without_bias(1280, 1));
  graph.add("avgpool", GlobalAveragePool{});
  graph.add("classifier.0", Dropout{.probability = 0.2});
  graph.add("classifier.1", Linear{.out_features = data.classes});
  classify(graph, data);
  return graph;
}

}  // namespace

std::vector<ModelEntry> mobilenet_v2() {
  return {ModelEntry{.name = "mobilenet-v2",
                     .make = make_mobilenet_v2,
                     .defaults = {.learning_rate = 0.05,
                                  .momentum = 0.9,
                                  .weight_decay = 4e-5,
                                  .epochs = 30,
                                  .batch = 128,
                                  .decay = Decay::cosine,
                                  .warmup_epochs = 1.5},
                     .example = DataSpec::of_images(3, 9, 9, 10),
                     .usual_stem = Stem::by_extent}};  // the smallest images that leave 2×2 for the last stage
}

}  // namespace lockstep::nn::models
