// SPDX-License-Identifier: Apache-2.0
#include "nn/models/yolov5_heads.hpp"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.hpp"

namespace lockstep::nn::models {
namespace {

constexpr std::array<double, 3> balance = {4, 1, 0.4};  // of the levels in the loss of objectness

std::vector<double> checked_anchors(const DataSpec& data, const std::string& model) {
  if (data.anchors.empty()) return {anchors_of_coco.begin(), anchors_of_coco.end()};
  const bool are_positive = std::ranges::all_of(data.anchors, [](double side) { return side > 0; });
  if (data.anchors.size() == anchors_of_coco.size() && are_positive) return data.anchors;
  throw Error(ErrorCode::invalid_argument, "model '" + model + "' cannot have " + std::to_string(data.anchors.size()) +
                                               " numbers as anchors: give " + std::to_string(anchors_of_coco.size()) +
                                               " above 0, width and height of each, from the finest level on");
}

/// Adds a head that begins with about 8 objects in an image of 640×640 pixels, and with classes that are rare.
/// @source Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, section 3.3
int add_head(Graph& graph, const DataSpec& data, std::size_t level, int in) {
  const std::string name = "model.24.m." + std::to_string(level);
  const auto outputs = static_cast<std::int64_t>(anchors_of_level) * (5 + data.classes);
  const int map = graph.add(name, Convolution{.out_channels = outputs, .kernel = 1}, {in});
  const double cells = std::pow(yolov5_size / static_cast<double>(yolov5_strides[level]), 2);
  std::vector<double> added;
  for (std::size_t anchor = 0; anchor < anchors_of_level; ++anchor) {
    added.insert(added.end(), {0, 0, 0, 0, std::log(8 / cells)});
    added.insert(added.end(), static_cast<std::size_t>(data.classes),
                 std::log(0.6 / (static_cast<double>(data.classes) - 0.99999)));
  }
  graph.add_to_initial(name + ".bias", std::move(added));
  return map;
}

/// Adds the losses of a level to those of the others.
void add_losses_of_level(Graph& graph, const DataSpec& data, std::size_t level, AnchorLoss loss, int map, int boxes) {
  const auto& [channels, height, width] = data.at("images").extent;
  const auto side = static_cast<double>(data.image_size > 0 ? data.image_size : std::max(height, width));
  const auto add = [&](const std::string& name, AnchorLoss::Part part, double coefficient) {
    loss.part = part;
    graph.loss(name + std::to_string(level), loss, {map, boxes}, coefficient, Normalizer::weight);
  };
  add("box", AnchorLoss::Part::box, 0.05);
  add("objectness", AnchorLoss::Part::objectness, balance[level] * std::pow(side / yolov5_size, 2));
  const double of_classes = 0.5 * static_cast<double>(data.classes) / yolov5_classes;
  if (data.classes > 1) add("classes", AnchorLoss::Part::classes, of_classes);
}

}  // namespace

void add_yolov5_heads(Graph& graph, const DataSpec& data, const std::array<int, 3>& features) {
  const std::vector<double> sizes = checked_anchors(data, graph.name());
  const int boxes = graph.input(data.at("boxes"));
  Constant saved{.name = "model.24.anchors", .shape = {3, anchors_of_level, 2}, .values = {}};
  std::vector<int> decoded;
  for (std::size_t level = 0; level < features.size(); ++level) {
    const std::int64_t stride = yolov5_strides[level];
    std::vector<ops::operators::AnchorSize> anchors;
    for (std::size_t i = 2 * anchors_of_level * level; i < 2 * anchors_of_level * (level + 1); i += 2)
      anchors.push_back({sizes[i], sizes[i + 1]});
    for (const auto& [width, height] : anchors)
      for (const double side : {width, height}) saved.values.push_back(side / static_cast<double>(stride));
    const int map = add_head(graph, data, level, features[level]);
    add_losses_of_level(graph, data, level, {.anchors = anchors, .stride = stride}, map, boxes);
    decoded.push_back(
        graph.add("decoded" + std::to_string(level), AnchorDecode{.anchors = anchors, .stride = stride}, {map}));
  }
  const int detections = graph.add("detections", Concat{.axis = Axis::width}, decoded);
  graph.output("detections", detections, {.name = "output0", .channels_last = true});
  graph.constant(std::move(saved));
}

}  // namespace lockstep::nn::models
