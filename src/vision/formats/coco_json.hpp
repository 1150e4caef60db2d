// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace lockstep::vision {

struct CocoImage {
  std::int64_t id = 0;
  std::string file;  ///< its name, as the annotations have it
  int width = 0;     ///< 0: the annotations do not say it
  int height = 0;
};

struct CocoCategory {
  std::int64_t id = 0;
  std::string name;
};

/// An annotated object, in pixels of its picture.
struct CocoObject {
  std::int64_t image = 0;     ///< the id of its picture
  std::int64_t category = 0;  ///< the id of its category
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  double area = -1;  ///< of its mask; −1: the annotations do not say it
  bool is_crowd = false;
  std::int64_t place = 0;  ///< in the list of annotations, from 0
};

/// What COCO's annotations say about boxes.
struct CocoFile {
  std::vector<CocoImage> images;         ///< by ascending id
  std::vector<CocoCategory> categories;  ///< by ascending id
  std::vector<CocoObject> objects;       ///< in the order of the file
};

/// Reads annotations in COCO's form as a stream. The ids of annotations, masks and keypoints are not kept.
/// @param file  for messages
/// @throws Error{corrupt} with file and line if it is no JSON; lacks images, annotations or categories; an entry of
///         them lacks its id or name, or an annotation its picture, category or box; or if two images or two categories
///         have the same id; Error{io} if it cannot be read
/// @cost memory for the result, and 64 KiB
CocoFile read_coco(std::istream& in, const std::string& file);

}  // namespace lockstep::vision
