// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "vision/image/image.hpp"

/// Files of pictures: which kind they are, and their pixels. The contents decide, not the name of a file. JPEG needs
/// libjpeg-turbo, and PNG libspng; a lockstep that was built without one of them says so when it meets such a file.
namespace lockstep::vision {

/// The kinds of files that are told apart by their first bytes. Only the first two can be decoded.
enum class PictureFormat : std::uint8_t { jpeg, png, webp, bmp, tiff, gif, heic, unknown };

/// Returns "JPEG", "PNG", "WebP", …
std::string_view name(PictureFormat format);
/// Whether the kind can be decoded by some lockstep, if not by this one.
constexpr bool is_supported(PictureFormat format) { return format <= PictureFormat::png; }
/// @cost looks at the first 32 bytes
PictureFormat format_of(std::span<const std::byte> file);

/// Bounds on what a file may claim; one that claims more is refused before its pixels are allocated.
struct DecodeLimits {
  std::int64_t pixels = 100'000'000;
  int side = 65'500;
};

/// How pixels are decoded. The pixels depend on the file and these options only, on every machine.
struct DecodeOptions {
  /// 3 converts everything to red, green and blue; 1 to gray; 0 keeps one channel of gray pictures, and three of
  /// others.
  int channels = 3;
  /// A JPEG is decoded at the smallest of the scales 1/8, 1/4, 1/2 and 1 at which its shorter side has at least this
  /// many pixels; 0: at full size. Other kinds are decoded at full size.
  int least_side = 0;
  /// Whether a PNG with a palette becomes its indices in place of its colors, for masks. Such a picture has one
  /// channel.
  bool palette_indices = false;
  DecodeLimits limits = {};
};

/// What the header of a file says.
struct PictureInfo {
  PictureFormat format = PictureFormat::unknown;
  int width = 0;  ///< as it is shown, after the orientation in the file's EXIF data is applied
  int height = 0;
  int orientation = 1;  ///< of EXIF, 1 … 8; 1: as stored
};

/// Reads the header of a JPEG or PNG.
/// @throws Error{corrupt} if it is damaged or claims more than the limits; Error{unsupported} for another kind of file
///         or a lockstep without its library. The messages do not name the file, which the caller knows
PictureInfo inspect(std::span<const std::byte> file, const DecodeLimits& limits = {});

/// Decodes a JPEG (baseline or progressive; gray, YCbCr, RGB, CMYK and YCCK, inverted or not as Adobe's marker says) or
/// a PNG (any bit depth, palette, transparency over white), and turns it upright as its EXIF data say.
/// @param picture  overwritten; its memory is used again
/// @throws Error{corrupt} for a damaged or truncated file, or one that claims more than the limits; Error{unsupported}
///         as inspect()
void decode(std::span<const std::byte> file, const DecodeOptions& options, Image& picture);

/// Red, green and blue of each value.
using Palette = std::array<std::array<std::uint8_t, 3>, 256>;
/// Encodes 1 or 3 channels as PNG. @param palette  of one channel, which then has its indices; null: it is gray
/// @throws Error{unsupported} without libspng
std::vector<std::byte> encode_png(const Image& picture, const Palette* palette = nullptr);

}  // namespace lockstep::vision
