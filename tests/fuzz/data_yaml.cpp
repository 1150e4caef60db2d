// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/data_yaml.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_yaml_of_data(const std::string& input) {
  // yaml-cpp makes a node of several hundred bytes of each comma. Longer files are bounded where they are read.
  constexpr std::size_t most = 1500;
  vision::DataYaml yaml;
  try {
    yaml = vision::parse_data_yaml(input.substr(0, most), "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported, "another code");
    return;
  }
  for (const auto& texts : {yaml.train, yaml.val, yaml.test, yaml.names})
    for (const std::string& text : texts) require(!text.empty(), "an empty text");
}

const Registration data_yaml("data_yaml", parse_yaml_of_data);

}  // namespace
}  // namespace lockstep::fuzz
