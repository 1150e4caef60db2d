// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "nn/models/liteseg_decoder.hpp"
#include "nn/models/stdc.hpp"

// Names of tensors are PaddleSeg's, with running_mean and running_var for its _mean and _variance.
namespace lockstep::nn::models {
namespace {

/// PP-LiteSeg-T. Heads at strides 8, 16 and 32 have a loss each; only the first one is evaluated. Targets are "labels",
/// the class of each pixel.
/// @source Peng et al., "PP-LiteSeg: A Superior Real-Time Semantic Segmentation Model", arXiv 2204.02681
Graph make_pp_liteseg(const DataSpec& data) {
  constexpr std::array<std::int64_t, 3> of_fusions{32, 64, 128};
  constexpr std::array<std::int64_t, 3> of_heads{32, 64, 64};
  Graph graph("pp-liteseg");
  const std::array<int, 3> maps = add_stdc1(graph, graph.input(data.at("images")));
  const int labels = graph.input(data.at("labels"));
  std::array<int, 3> fused{};
  int coarse = add_seg_context(graph, "ppseg_head.cm", maps.back());
  for (std::size_t level = maps.size(); level-- > 0;) {
    const std::string name = "ppseg_head.arm_list." + std::to_string(level);
    coarse = fused[level] = add_seg_fusion(graph, name, maps[level], coarse, of_fusions[level]);
  }
  const int logits = add_seg_head(graph, data, 0, fused[0], of_heads[0]);
  graph.output("logits", logits);
  graph.loss("pixels", OhemCrossEntropy{}, {logits, labels}, 1, Normalizer::weight);
  for (const int head : {1, 2}) {
    const auto level = static_cast<std::size_t>(head);
    const int auxiliary = add_seg_head(graph, data, head, fused[level], of_heads[level]);
    graph.auxiliary_loss("pixels" + std::to_string(head), OhemCrossEntropy{}, {auxiliary, labels}, 1,
                         Normalizer::weight);
  }
  return graph;
}

}  // namespace

/// The defaults are PaddleSeg's for Cityscapes on four GPUs: 160,000 steps are 860 epochs.
std::vector<ModelEntry> pp_liteseg() {
  DataSpec example{{{"images", {3, 40, 48}}, {"labels", {1, 40, 48}, Content::integer}}, 3};
  return {ModelEntry{.name = "pp-liteseg",
                     .make = make_pp_liteseg,
                     .defaults = {.learning_rate = 0.005,
                                  .weight_decay = 5e-4,
                                  .epochs = 860,
                                  .batch = 16,
                                  .decay = Decay::polynomial,
                                  .warmup_epochs = 1,
                                  .least_warmup_steps = 1000,
                                  .power = 0.9,
                                  .warmup_start = 1e-5 / 0.005},
                     .workload = "segmentation",
                     .example = std::move(example)}};
}

}  // namespace lockstep::nn::models
