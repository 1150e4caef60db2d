// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vision/source/source.hpp"

namespace lockstep::vision {

/// An object of a picture, as Pascal VOC's XML has it.
struct VocObject {
  std::string name;       ///< of its class
  Box box;                ///< in the project's convention; the label is not set
  bool has_area = true;   ///< whether right and bottom were greater than left and top
  std::int64_t line = 0;  ///< of the file
};

/// Parses an annotation: `annotation/object` with `name`, `bndbox` (xmin, ymin, xmax, ymax; from 1, inclusive) and
/// `difficult`.
/// @param file  for messages
/// @throws Error{corrupt} with file and line if it is no XML, or an object lacks its name or a corner;
/// Error{unsupported}
///         if this lockstep was built without pugixml
std::vector<VocObject> parse_voc(std::string_view text, const std::string& file);

}  // namespace lockstep::vision
