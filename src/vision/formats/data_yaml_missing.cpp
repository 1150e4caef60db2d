// SPDX-License-Identifier: Apache-2.0
// Takes the place of data_yaml.cpp where lockstep is built without yaml-cpp.
#include "lockstep/base/error.hpp"
#include "vision/formats/data_yaml.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {

DataYaml parse_data_yaml(std::string_view /*text*/, const std::string& file) {
  throw Error(ErrorCode::unsupported, shown(file) +
                                          " is YAML, and this lockstep was built without yaml-cpp; install it "
                                          "(Debian: libyaml-cpp-dev) and build lockstep again");
}

}  // namespace lockstep::vision
