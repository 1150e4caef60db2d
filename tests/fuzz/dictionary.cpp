// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/dictionary.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_characters(const std::string& input) {
  std::vector<std::string> names;
  try {
    names = vision::parse_dictionary(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  require(!names.empty(), "no characters");
  const vision::CharacterLabels labels(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    require(vision::length_of(names[i]) == 1, "a name of several characters");
    require(labels.label(names[i]) == static_cast<std::int32_t>(i), "a character that occurs twice");
  }
}

const Registration dictionary("dictionary", parse_characters);

}  // namespace
}  // namespace lockstep::fuzz
