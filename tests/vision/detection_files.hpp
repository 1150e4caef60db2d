// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "vision/user_files.hpp"

namespace lockstep::vision {

/// Writes gray pictures of this size.
inline void put_pngs(const UserFiles& user, int width, int height, const std::vector<std::string>& relatives) {
  Image picture;
  picture.resize(width, height, 1);
  const std::vector<std::byte> png = encode_png(picture);
  for (const std::string& relative : relatives)
    user.put(relative, {reinterpret_cast<const char*>(png.data()), png.size()});
}

/// The relative places of the samples of a part.
inline Names places_of(const Source& source) {
  Names places;
  for (std::int64_t i = 0; i < source.size(); ++i) places.push_back(source.relative_place(i));
  return places;
}

/// "label left top right bottom" of a box.
inline std::string text_of_box(const Box& box) {
  std::string text = std::to_string(box.label);
  for (const float edge : {box.left, box.top, box.right, box.bottom}) text += ' ' + std::to_string(edge).substr(0, 6);
  return text;
}

}  // namespace lockstep::vision
