// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "vision/codec/codec.hpp"

namespace lockstep::fuzz {

/// Decodes a file in each way, with limits so low that the fuzzer's bound on memory holds for what decoders allocate.
inline void decode_picture(const std::string& input) {
  const auto file = std::as_bytes(std::span(input));
  const vision::DecodeLimits limits{.pixels = 1 << 14, .side = 256};
  for (const vision::DecodeOptions& options :
       {vision::DecodeOptions{.channels = 3, .limits = limits},
        vision::DecodeOptions{.channels = 1, .least_side = 4, .limits = limits},
        vision::DecodeOptions{.channels = 0, .palette_indices = true, .limits = limits}}) {
    vision::Image picture;
    try {
      vision::decode(file, options, picture);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported, "another code");
      continue;
    }
    const vision::PictureInfo info = vision::inspect(file, limits);
    require(options.least_side > 0 || (picture.width == info.width && picture.height == info.height), "extents");
    require(options.channels == 0 || picture.channels == options.channels, "channels");
    require(picture.pixels.size() == picture.row_bytes() * static_cast<std::size_t>(picture.height), "pixels");
  }
}

}  // namespace lockstep::fuzz
