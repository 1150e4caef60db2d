// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/text_lines.hpp"

namespace lockstep::fuzz {
namespace {

void parse_class_names_file(const std::string& input) {
  std::vector<std::string> names;
  try {
    names = vision::parse_class_names(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  require(!names.empty(), "no names");
  if (names.size() > 1000) return;  // the check below takes more memory than the parser may
  require(std::set<std::string>(names.begin(), names.end()).size() == names.size(), "a name twice");
}

const Registration class_names("class_names", parse_class_names_file);

}  // namespace
}  // namespace lockstep::fuzz
