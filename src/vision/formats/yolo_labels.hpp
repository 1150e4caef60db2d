// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::vision {

/// A line of a file of labels: a class and a box, in fractions of the picture's width and height.
struct YoloBox {
  std::int32_t label = 0;
  double x = 0;  ///< of the center
  double y = 0;
  double width = 0;
  double height = 0;
  std::int64_t line = 0;  ///< of the file, from 1
};

struct YoloLabels {
  std::vector<YoloBox> boxes;          ///< each box once
  std::vector<std::int64_t> repeated;  ///< the lines that are equal to an earlier one
};

/// Parses the labels of a picture: `class x y width height` on each line, or `class x1 y1 x2 y2 x3 y3 …`, a polygon,
/// which is reduced to the box around its points.
/// @param file     for messages
/// @param classes  how many classes there are
/// @throws Error{corrupt} with file and line for a line of another form, a number outside of 0 … 1, or a label that is
///         none of the classes
YoloLabels parse_yolo_labels(std::string_view text, const std::string& file, std::size_t classes);

}  // namespace lockstep::vision
