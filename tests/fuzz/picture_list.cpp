// SPDX-License-Identifier: Apache-2.0
#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/text_lines.hpp"

namespace lockstep::fuzz {
namespace {

void parse_picture_list(const std::string& input) {
  std::vector<vision::ListLine> lines;
  try {
    lines = vision::parse_list(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  for (const vision::ListLine& line : lines) {
    require(!line.path.empty(), "an empty path");
    require(line.label >= 0 && line.label < vision::most_class_count, "a label that is no class");
    require(line.line > 0, "a line without number");
  }
}

const Registration picture_list("picture_list", parse_picture_list);

}  // namespace
}  // namespace lockstep::fuzz
