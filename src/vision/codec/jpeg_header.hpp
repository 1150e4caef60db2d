// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "vision/codec/codec.hpp"

namespace lockstep::vision {

/// What the markers in front of a JPEG's first scan say.
struct JpegHeader {
  int width = 0;   ///< as stored
  int height = 0;  ///< as stored
  int components = 0;
  int orientation = 1;     ///< of EXIF
  bool has_adobe = false;  ///< Adobe's marker, with which CMYK is stored inverted
};

/// Reads the markers up to the first scan, and nothing outside of the file. Bytes between segments are skipped, as
/// libjpeg does.
/// @throws Error{corrupt} if they are damaged or end too early; Error{unsupported} for lossless, hierarchical and
///         12-bit JPEG, and for numbers of components other than 1, 3 and 4
/// @cost proportional to the number of markers
JpegHeader read_jpeg_header(std::span<const std::byte> file);

/// Whether the marker of its end follows all scans of a JPEG. No other bytes look like it.
/// @cost proportional to the size of the file
bool has_end_marker(std::span<const std::byte> file);

/// The same as a PictureInfo, whose extents are those of the upright picture.
PictureInfo info_of(const JpegHeader& header);

}  // namespace lockstep::vision
