// SPDX-License-Identifier: Apache-2.0
#include "ops/formulas/anchors.hpp"

#include <cmath>
#include <sstream>

#include "ops/shapes.hpp"

namespace lockstep::ops {
namespace {

/// @throws Error{invalid_argument} unless the anchors divide the channels of the map into predictions with classes
void require_predictions(const Shape& map, std::span<const AnchorSize> anchors, std::int64_t stride) {
  require(!anchors.empty() && std::ssize(anchors) <= most_anchors,
          "anchors are " + std::to_string(anchors.size()) + "; there must be 1 to " + std::to_string(most_anchors));
  for (const AnchorSize& anchor : anchors)
    for (const double extent : anchor)
      require(extent > 0 && std::isfinite(extent),
              "an anchor has the extent " + std::to_string(extent) + "; it must be finite and positive");
  require_at_least(stride, 1, "stride");
  const auto count = std::ssize(anchors);
  require(map.channels % count == 0 && map.channels / count > numbers_of_box,
          "a map of " + text(map) + " has " + std::to_string(map.channels) + " channels; " + std::to_string(count) +
              " anchors need that many times 5 and the number of classes");
}

std::int64_t cells_of(const Shape& map, std::size_t anchors) {
  return map.batch * map.height * map.width * static_cast<std::int64_t>(anchors);
}

}  // namespace

Signature AnchorLoss::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "a loss of anchors");
  const Shape& map = inputs[0];
  const Shape& boxes = inputs[1];
  require_predictions(map, anchors, stride);
  require(boxes == Shape{map.batch, 5, 1, boxes.width}, "a map of " + ops::text(map) + " needs boxes of " +
                                                            std::to_string(map.batch) + "x5x1xM, not " +
                                                            ops::text(boxes));
  require(label_smoothing >= 0 && label_smoothing <= 1,
          "label_smoothing is " + std::to_string(label_smoothing) + "; it must lie between 0 and 1");
  // The objectness of a cell costs an exponential, a logarithm, two ramps, and five operations to combine them. Of the
  // others only the boxes are sure to be read; how many cells they match depends on the data.
  const std::int64_t cells = part == Part::objectness ? cells_of(map, anchors.size()) : 0;
  return {.output = {1, 3, 1, 1},
          .forward = {10 * cells + boxes.count(), cells + boxes.count()},
          .backward = {15 * cells + boxes.count(), 2 * cells + boxes.count()},
          .is_loss = true};
}

std::string AnchorLoss::text() const {
  std::ostringstream text;
  text << "anchors, stride " << stride << ", "
       << (part == Part::box          ? "CIoU of boxes"
           : part == Part::objectness ? "objectness"
                                      : "classes");
  if (part == Part::classes && label_smoothing != 0) text << ", smoothing " << label_smoothing;
  return text.str();
}

Signature AnchorDecode::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a decoding of anchors");
  const Shape& map = inputs[0];
  require_predictions(map, anchors, stride);
  const auto count = std::ssize(anchors);
  // A sigmoid costs three operations, and a coordinate at most three more.
  return {.output = {map.batch, map.channels / count, 1, count * map.height * map.width},
          .forward = {3 * map.count() + 12 * cells_of(map, anchors.size()), 2 * map.count()},
          .has_backward = false};
}

std::string AnchorDecode::text() const { return "decode anchors, stride " + std::to_string(stride); }

}  // namespace lockstep::ops
