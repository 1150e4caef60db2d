// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "fuzz/targets.hpp"
#include "vision/codec/upright.hpp"

namespace lockstep::fuzz {
namespace {

void find_orientation(const std::string& input) {
  const int orientation = vision::exif_orientation(std::as_bytes(std::span(input)));
  require(orientation >= 1 && orientation <= 8, "orientation");
}

const Registration exif("exif", find_orientation);

}  // namespace
}  // namespace lockstep::fuzz
