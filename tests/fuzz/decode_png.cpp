// SPDX-License-Identifier: Apache-2.0
#include "fuzz/decoding.hpp"

namespace lockstep::fuzz {
namespace {

/// Other kinds of files are left to other targets.
void decode_png(const std::string& input) {
  if (vision::format_of(std::as_bytes(std::span(input))) == vision::PictureFormat::png) decode_picture(input);
}

const Registration registration_of_png("decode_png", decode_png);

}  // namespace
}  // namespace lockstep::fuzz
