// SPDX-License-Identifier: Apache-2.0
// In place of png.cpp where libspng was not found.
#include "lockstep/base/error.hpp"
#include "vision/codec/decoders.hpp"

namespace lockstep::vision {
namespace {

[[noreturn]] void fail_without_png() {
  throw Error(
      ErrorCode::unsupported,
      "this lockstep was built without libspng and can neither read nor write PNG; install its development files "
      "(Debian: libspng-dev) and build it again");
}

}  // namespace

PictureInfo inspect_png(std::span<const std::byte> /*file*/, const DecodeLimits& /*limits*/) { fail_without_png(); }

PictureInfo decode_png(std::span<const std::byte> /*file*/, const DecodeOptions& /*options*/, Image& /*picture*/) {
  fail_without_png();
}

std::vector<std::byte> encode_png(const Image& /*picture*/, const Palette* /*palette*/) { fail_without_png(); }

}  // namespace lockstep::vision
