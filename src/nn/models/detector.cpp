// SPDX-License-Identifier: Apache-2.0
#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {
namespace {

/// Adds the output of a scale for its cells: (4 edges + objectness + classes) × 1 × cells.
int add_cells(Graph& graph, const std::string& name, int features, std::int64_t classes) {
  const int each = graph.add(name, Convolution{.out_channels = 5 + classes, .kernel = 1}, {features});
  const ops::Shape shape = graph.shape(each);
  return graph.add(name + ".cells", Reshape{.channels = 5 + classes, .width = shape.height * shape.width});
}

/// Adds "<name>": the coarser scale, resized to the finer one's extent and concatenated with it.
int add_merge(Graph& graph, const std::string& name, int coarse, int fine, std::int64_t channels) {
  const int up = graph.add(name + ".up", Resize{.scale = 2}, {coarse});
  graph.add(name + ".concat", Concat{}, {up, fine});
  return add_conv_block(graph, name, 0, channels);
}

void add_losses(Graph& graph, const DataSpec& data, int cells) {
  graph.output("cells", cells);
  const int labels = graph.input(data.at("labels"));
  const int objects = graph.input(data.at("objects"));
  const int boxes = graph.input(data.at("boxes"));
  const int classified = graph.add("classes", Slice{.begin = 5, .end = 5 + data.classes}, {cells});
  graph.loss("classification", CrossEntropy{}, {classified, labels}, 1, Normalizer::weight);
  const int found = graph.add("objectness", Slice{.begin = 4, .end = 5}, {cells});
  graph.loss("detection", BinaryCrossEntropy{.positive_weight = 10}, {found, objects}, 1, Normalizer::weight);
  const int edges = graph.add("edges", Slice{.begin = 0, .end = 4}, {cells});
  graph.loss("overlap", Giou{}, {edges, boxes, objects}, 1, Normalizer::weight);
  // Boxes that do not intersect learn little from their overlap. For cells without an object, zeros are compared.
  const int counted = graph.add("edges.counted", Multiply{}, {edges, objects});
  graph.loss("distance", SmoothL1{.beta = 0.5}, {counted, boxes}, 0.25);
}

/// A small one-stage detector without anchors: a backbone with strides 4, 8 and 16, a neck that merges the coarse
/// scales into the finer ones, and a head for each scale. Each cell predicts the class of its object, whether there is
/// an object, and the distances of the object's edges from the cell's center, in cells. Targets are for the cells of
/// all scales, the finest first: "labels" (−100: none), "objects" (1 or 0) and "boxes" (left, top, right, bottom; zeros
/// without an object).
/// @source Tian et al., "FCOS: Fully Convolutional One-Stage Object Detection", ICCV 2019
Graph make_detector(const DataSpec& data) {
  require_multiple(data, "detector", 16, 16);
  Graph graph("detector");
  graph.input(data.at("images"));
  add_two_blocks(graph, "stem", 16, 2);
  const int at4 = add_two_blocks(graph, "stage1", 32, 2);
  const int at8 = add_two_blocks(graph, "stage2", 64, 2);
  const int at16 = add_two_blocks(graph, "stage3", 64, 2);
  const int merged8 = add_merge(graph, "merge2", at16, at8, 64);
  const int merged4 = add_merge(graph, "merge1", merged8, at4, 32);
  const std::vector<int> scales{add_cells(graph, "head1", merged4, data.classes),
                                add_cells(graph, "head2", merged8, data.classes),
                                add_cells(graph, "head3", at16, data.classes)};
  add_losses(graph, data, graph.add("cells", Concat{.axis = Axis::width}, scales));
  return graph;
}

}  // namespace

std::vector<ModelEntry> detector() {
  DataSpec example{{{"images", {3, 32, 32}},
                    {"labels", {1, 1, 84}, Content::integer},
                    {"objects", {1, 1, 84}},
                    {"boxes", {4, 1, 84}}},
                   3};
  return {ModelEntry{
      .name = "detector",
      .make = make_detector,
      .defaults = {.learning_rate = 0.02, .epochs = 20, .batch = 16, .decay = Decay::cosine, .warmup_epochs = 1},
      .workload = "detection",
      .example = std::move(example)}};
}

}  // namespace lockstep::nn::models
