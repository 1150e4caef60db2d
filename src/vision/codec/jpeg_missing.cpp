// SPDX-License-Identifier: Apache-2.0
// In place of jpeg.cpp where libjpeg-turbo was not found.
#include "lockstep/base/error.hpp"
#include "vision/codec/decoders.hpp"

namespace lockstep::vision {
namespace {

[[noreturn]] void fail_without_jpeg() {
  throw Error(
      ErrorCode::unsupported,
      "this lockstep was built without libjpeg-turbo and cannot read JPEG; install its development files (Debian: "
      "libturbojpeg0-dev) and build it again");
}

}  // namespace

PictureInfo inspect_jpeg(std::span<const std::byte> /*file*/) { fail_without_jpeg(); }

PictureInfo decode_jpeg(std::span<const std::byte> /*file*/, const DecodeOptions& /*options*/, Image& /*picture*/) {
  fail_without_jpeg();
}

}  // namespace lockstep::vision
