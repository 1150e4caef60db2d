// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "vision/codec/codec.hpp"

namespace lockstep::fuzz {
namespace {

void inspect_picture(const std::string& input) {
  const vision::DecodeLimits limits{.pixels = 1'000'000, .side = 5'000};
  vision::PictureInfo info;
  try {
    info = vision::inspect(std::as_bytes(std::span(input)), limits);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported, "another code");
    return;
  }
  require(info.width > 0 && info.height > 0 && info.width <= limits.side && info.height <= limits.side, "extents");
  require(info.orientation >= 1 && info.orientation <= 8, "orientation");
}

const Registration picture_headers("picture_headers", inspect_picture);

}  // namespace
}  // namespace lockstep::fuzz
