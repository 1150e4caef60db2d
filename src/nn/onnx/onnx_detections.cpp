// SPDX-License-Identifier: Apache-2.0
// What exported detectors have: anchors that standard operators decode, and detections in the usual order.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/onnx/onnx_nodes.hpp"

namespace lockstep::nn {

/// Decodes all predictions at once, as N×anchors×numbers×cells.
std::string OnnxNodes::operator()(const AnchorDecode& op) {
  const ops::Shape& map = shape();
  const auto anchors = std::ssize(op.anchors);
  const std::int64_t numbers = map.channels / anchors;
  const std::int64_t cells = map.height * map.width;
  const std::string& name = node_->name;
  const std::string all = onnx_.node("Sigmoid", {spatial()}, name + ".all");
  const std::string sigmoids = reshape(all, name + ".sigmoids", {0, anchors, numbers, cells});
  const std::vector<std::string> parts{decoded_centers(op, sigmoids), decoded_extents(op, sigmoids),
                                       slice(sigmoids, name + ".scores", 2, 4, numbers)};
  const std::string together = onnx_.node("Concat", parts, name + ".together", {{"axis", std::int64_t{2}}});
  const std::string ordered =
      onnx_.node("Transpose", {together}, name + ".ordered", {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  return reshape(ordered, result_, {0, numbers, 1, anchors * cells});
}

/// (2σ − 0.5 + cell)·stride
std::string OnnxNodes::decoded_centers(const AnchorDecode& op, const std::string& sigmoids) {
  const ops::Shape& map = shape();
  const auto stride = static_cast<float>(op.stride);
  std::vector<float> cells;
  for (const bool of_columns : {true, false})
    for (std::int64_t row = 0; row < map.height; ++row)
      for (std::int64_t column = 0; column < map.width; ++column)
        cells.push_back((static_cast<float>(of_columns ? column : row) - 0.5F) * stride);
  const std::string& name = node_->name;
  const std::array<float, 1> twice{2 * stride};
  const std::string scale = onnx_.constant(name + ".center_scale", {}, twice);
  const std::string offsets = onnx_.constant(name + ".cells", {1, 1, 2, map.height * map.width}, cells);
  const std::string scaled =
      onnx_.node("Mul", {slice(sigmoids, name + ".center_sigmoids", 2, 0, 2), scale}, name + ".scaled_centers");
  return onnx_.node("Add", {scaled, offsets}, name + ".centers");
}

/// (2σ)²·anchor
std::string OnnxNodes::decoded_extents(const AnchorDecode& op, const std::string& sigmoids) {
  std::vector<float> sizes;
  for (const AnchorSize& anchor : op.anchors)
    for (const double extent : anchor) sizes.push_back(static_cast<float>(4 * extent));
  const std::string& name = node_->name;
  const std::string scale = onnx_.constant(name + ".anchors", {1, std::ssize(op.anchors), 2, 1}, sizes);
  const std::string extents = slice(sigmoids, name + ".extent_sigmoids", 2, 2, 4);
  const std::string squares = onnx_.node("Mul", {extents, extents}, name + ".squares");
  return onnx_.node("Mul", {squares, scale}, name + ".sizes");
}

std::string OnnxNodes::slice(const std::string& input, const std::string& name, std::int64_t axis, std::int64_t begin,
                             std::int64_t end) {
  return onnx_.node("Slice",
                    {input, onnx_.constant(name + ".begin", std::vector<std::int64_t>{begin}),
                     onnx_.constant(name + ".end", std::vector<std::int64_t>{end}),
                     onnx_.constant(name + ".axes", std::vector<std::int64_t>{axis})},
                    name);
}

std::string OnnxNodes::reshape(const std::string& input, std::string name, const std::vector<std::int64_t>& extents) {
  const std::string to = onnx_.constant(name + ".extents", extents);
  return onnx_.node("Reshape", {input, to}, std::move(name));
}

/// Adds an output N×C×1×T as N×T×C.
void OnnxNodes::add_channels_last(const Output& output) {
  const auto value = static_cast<std::size_t>(output.value);
  const ops::Shape& shape = graph_.shape(output.value);
  const std::string& name = output.exported_name();
  const std::string rows = reshape(names_[value], name + ".rows", {0, shape.channels, shape.width});
  onnx_.node("Transpose", {rows}, name, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  onnx_.output(name, {0, shape.width, shape.channels});
}

}  // namespace lockstep::nn
