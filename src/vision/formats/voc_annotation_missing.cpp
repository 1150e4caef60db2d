// SPDX-License-Identifier: Apache-2.0
// Takes the place of voc_annotation.cpp where lockstep is built without pugixml.
#include "lockstep/base/error.hpp"
#include "vision/formats/voc_annotation.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {

std::vector<VocObject> parse_voc(std::string_view /*text*/, const std::string& file) {
  throw Error(ErrorCode::unsupported, shown(file) +
                                          " is XML, and this lockstep was built without pugixml; install it "
                                          "(Debian: libpugixml-dev) and build lockstep again");
}

}  // namespace lockstep::vision
