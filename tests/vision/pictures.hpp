// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "vision/codec/codec.hpp"
#include "vision/image/image.hpp"

/// Pictures for tests, in memory and as files.
namespace lockstep::vision {

using File = std::vector<std::byte>;

/// Returns a picture whose pixels all differ from their neighbors.
Image patterned(int width, int height, int channels);
/// Returns a gray picture of 24×16 whose blocks of 8×8, which a JPEG keeps, have the values 0, 50, 100 above 150, 200,
/// 250.
Image blocks();

/// How a JPEG is made.
struct JpegForm {
  int subsampling = 0;  ///< TJSAMP; 0: none
  int quality = 100;
  bool is_progressive = false;
};
/// Encodes 1 or 3 channels, or 4 as YCCK with Adobe's marker.
File make_jpeg(const Image& picture, const JpegForm& form = {});
/// Puts a segment behind the start marker of a JPEG.
File with_segment(const File& jpeg, int marker, const File& contents);
/// Leaves out all segments of this marker.
File without_segments(const File& jpeg, int marker);

/// EXIF data with an orientation, as they stand in a PNG.
File exif_data(int orientation, bool is_little_endian);
/// The contents of a JPEG's APP1 segment with them.
File exif_segment(int orientation, bool is_little_endian);

/// What a PNG has beside its pixels.
struct PngForm {
  int bit_depth = 8;
  int color_type = 0;
  bool is_interlaced = false;
  std::vector<std::array<std::uint8_t, 3>> palette;
  std::vector<std::uint8_t> palette_alpha;        ///< tRNS of a palette
  std::optional<std::array<int, 3>> transparent;  ///< tRNS of a gray value or a color
  std::optional<File> exif;
};
/// Encodes rows as PNG has them: several samples may share a byte, and numbers of 16 bits begin with their upper half.
File make_png(int width, int height, const PngForm& form, std::span<const std::uint8_t> rows);

Image decoded(const File& file, const DecodeOptions& options = {});

}  // namespace lockstep::vision
