// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/yolo_labels.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_labels_of_yolo(const std::string& input) {
  constexpr std::size_t classes = 80;
  vision::YoloLabels labels;
  try {
    labels = vision::parse_yolo_labels(input, "input", classes);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  for (const vision::YoloBox& box : labels.boxes) {
    require(box.label >= 0 && box.label < static_cast<std::int32_t>(classes), "a label that is no class");
    for (const double number : {box.x, box.y, box.width, box.height})
      require(number >= 0 && number <= 1, "a number that is no fraction");
    require(box.line > 0, "a box without line");
  }
}

const Registration yolo_labels("yolo_labels", parse_labels_of_yolo);

}  // namespace
}  // namespace lockstep::fuzz
