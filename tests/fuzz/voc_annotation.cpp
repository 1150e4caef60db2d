// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/voc_annotation.hpp"

#include <cmath>

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_voc_annotation(const std::string& input) {
  std::vector<vision::VocObject> objects;
  try {
    objects = vision::parse_voc(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported, "another code");
    return;
  }
  for (const vision::VocObject& object : objects) {
    const vision::Box& box = object.box;
    require(!object.name.empty() && object.line > 0, "an object without name or line");
    require(std::isfinite(box.left + box.top + box.right + box.bottom), "a corner that is not finite");
    require(box.left >= 0 && box.top >= 0, "a corner beyond the picture");
    require(!object.has_area || (box.right > box.left && box.bottom > box.top), "an area that is none");
  }
}

const Registration voc_annotation("voc_annotation", parse_voc_annotation);

}  // namespace
}  // namespace lockstep::fuzz
