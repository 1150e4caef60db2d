// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/coco_json.hpp"

#include <cmath>
#include <sstream>

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_coco_json(const std::string& input) {
  std::istringstream in(input);
  vision::CocoFile coco;
  try {
    coco = vision::read_coco(in, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  for (std::size_t i = 0; i < coco.images.size(); ++i) {
    const vision::CocoImage& image = coco.images[i];
    require(!image.file.empty() && image.width >= 0 && image.height >= 0, "an image that is none");
    require(i == 0 || coco.images[i - 1].id < image.id, "ids that do not ascend");
  }
  for (const vision::CocoCategory& category : coco.categories) require(!category.name.empty(), "an empty name");
  for (const vision::CocoObject& object : coco.objects) {
    require(std::isfinite(object.left + object.top + object.width + object.height), "an edge that is not finite");
    require(object.area == -1 || (object.area >= 0 && std::isfinite(object.area)), "an area that is none");
  }
}

const Registration coco_json("coco_json", parse_coco_json);

}  // namespace
}  // namespace lockstep::fuzz
