// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "vision/codec/codec.hpp"

namespace lockstep::vision {

/// Returns what the header of a picture's file says, with the size of the upright picture; nothing if the file is
/// damaged, or of a kind that no lockstep reads.
/// @throws Error{io} that names the path and why it cannot be read; Error{unsupported} if this lockstep was built
///         without the library for its kind
/// @cost reads the first 64 KiB, and for a PNG the lengths of its chunks; the whole file where that does not suffice
std::optional<PictureInfo> header_of(const std::filesystem::path& path);

}  // namespace lockstep::vision
