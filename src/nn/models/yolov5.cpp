// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "nn/models/yolov5_heads.hpp"
#include "nn/models/yolov5_layers.hpp"

namespace lockstep::nn::models {
namespace {

/// The network of version 6: a backbone of cross-stage partial blocks with pyramid pooling, a neck that passes the maps
/// of strides 32, 16 and 8 down and up again, and a head for each of them.
/// @param width  beside that of the widest network
/// @source Liu et al., "Path Aggregation Network for Instance Segmentation", CVPR 2018 (the neck)
Graph make_yolov5(const std::string& name, double width, const DataSpec& data) {
  require_multiple(data, name, yolov5_strides.back(), yolov5_strides.back());
  Graph g(name);
  const auto of = [&](double widest) { return static_cast<std::int64_t>(std::ceil(widest * width / 8)) * 8; };
  const auto down = [&](const std::string& layer, int in, double channels) {
    return add_conv_silu(g, layer, in, of(channels), 3, 2);
  };
  const Convolution stem{.out_channels = of(64), .kernel = 6, .stride = 2, .padding = 2, .bias = false};
  const int at2 = add_conv_silu(g, "model.0", g.input(data.at("images")), stem);
  const int at4 = add_c3(g, "model.2", down("model.1", at2, 128), of(128), 1);
  const int at8 = add_c3(g, "model.4", down("model.3", at4, 256), of(256), 2);
  const int at16 = add_c3(g, "model.6", down("model.5", at8, 512), of(512), 3);
  const int at32 = add_c3(g, "model.8", down("model.7", at16, 1024), of(1024), 1);
  const int coarse = add_conv_silu(g, "model.10", add_sppf(g, "model.9", at32, of(1024)), of(512));
  const int joined = add_c3(g, "model.13", upsample_and_join(g, 11, coarse, at16), of(512), 1, false);
  const int middle = add_conv_silu(g, "model.14", joined, of(256));
  const int fine = add_c3(g, "model.17", upsample_and_join(g, 15, middle, at8), of(256), 1, false);
  const int down16 = g.add("model.19", Concat{}, {down("model.18", fine, 256), middle});
  const int to16 = add_c3(g, "model.20", down16, of(512), 1, false);
  const int down32 = g.add("model.22", Concat{}, {down("model.21", to16, 512), coarse});
  const int to32 = add_c3(g, "model.23", down32, of(1024), 1, false);
  add_yolov5_heads(g, data, {fine, to16, to32});
  return g;
}

ModelEntry yolov5_of(const std::string& name, double width) {
  return {.name = name,
          .make = [=](const DataSpec& data) { return make_yolov5(name, width, data); },
          .defaults = {.learning_rate = 0.01,
                       .momentum = 0.937,
                       .nesterov = true,
                       .weight_decay = 5e-4,
                       .epochs = 300,
                       .batch = 16,
                       .decay = Decay::polynomial,
                       .warmup_epochs = 3,
                       .least_warmup_steps = 100,
                       .final_fraction = 0.01,
                       .decays_by_epoch = true,
                       .warmup_start = 0,
                       .warmup_bias_rate = 0.1,
                       .warmup_momentum = 0.8,
                       .decay_vectors = false,
                       .nominal_batch = 64,
                       .loss_times_batch = true,
                       .ema = 0.9999,
                       .ema_ramp = 2000,
                       .ema_statistics = true},
          .workload = "detection",
          .example = DataSpec{{{"images", {3, 64, 64}}, {"boxes", {5, 1, 8}}}, 2},
          .usual_anchors = {anchors_of_coco.begin(), anchors_of_coco.end()}};
}

}  // namespace

std::vector<ModelEntry> yolov5() { return {yolov5_of("yolov5n", 0.25), yolov5_of("yolov5s", 0.5)}; }

}  // namespace lockstep::nn::models
