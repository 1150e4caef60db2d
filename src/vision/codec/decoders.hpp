// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "vision/codec/codec.hpp"

// What each decoder provides. CMake chooses between <name>.cpp and <name>_missing.cpp, which throws Error{unsupported}
// and names the package.

namespace lockstep::vision {

/// @throws Error{corrupt} if the file claims more pixels or a longer side than the limits
void check_limits(const PictureInfo& info, const DecodeLimits& limits);

/// Reads the header of a JPEG. @throws Error{corrupt | unsupported}
PictureInfo inspect_jpeg(std::span<const std::byte> file);
/// Decodes a JPEG as it is stored, without turning it upright. @return what its header says
PictureInfo decode_jpeg(std::span<const std::byte> file, const DecodeOptions& options, Image& picture);

/// Reads the header of a PNG. @throws Error{corrupt | unsupported}
PictureInfo inspect_png(std::span<const std::byte> file, const DecodeLimits& limits);
/// Decodes a PNG as it is stored, without turning it upright. @return what its header says
PictureInfo decode_png(std::span<const std::byte> file, const DecodeOptions& options, Image& picture);

}  // namespace lockstep::vision
