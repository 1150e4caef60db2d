// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo. Its accurate DCT and its interpolation of chroma give the same bytes with and without SIMD
// instructions, and the same as Pillow, which uses both.
#include <turbojpeg.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/error.hpp"
#include "vision/codec/decoders.hpp"
#include "vision/codec/jpeg_header.hpp"
#include "vision/image/color.hpp"

namespace lockstep::vision {
namespace {

struct EndDecompressor {
  void operator()(void* handle) const { tjDestroy(handle); }
};

/// The decompressor of this thread. Making one costs more than decoding a small picture.
tjhandle decompressor() {
  thread_local const std::unique_ptr<void, EndDecompressor> handle(tjInitDecompress());
  if (!handle)
    throw Error(ErrorCode::unsupported, std::string("libjpeg-turbo does not start: ") + tjGetErrorStr2(nullptr));
  return handle.get();
}

/// Returns the scale at which the shorter side has at least `least_side` pixels. libjpeg-turbo knows all eighths, but
/// only powers of two are fast: 3/8 takes longer than 1/2, and 5/8 longer than 1.
tjscalingfactor scale_of(const JpegHeader& header, int least_side) {
  tjscalingfactor scale{1, 1};
  const int side = std::min(header.width, header.height);
  for (int divisor = 2; divisor <= 8 && least_side > 0; divisor *= 2) {
    const tjscalingfactor smaller{1, divisor};
    if (TJSCALED(side, smaller) >= least_side) scale = smaller;
  }
  return scale;
}

/// Whether a warning is of something that usually leaves the pixels whole. libjpeg-turbo has no other sign of it than
/// its text. Cameras and editors write such files, and Pillow and torchvision read them without a word.
bool is_harmless(std::string_view warning) {
  return warning.find("extraneous bytes before marker") != std::string_view::npos ||
         warning.find("unknown JFIF revision") != std::string_view::npos;
}

/// Decodes into a picture whose extents and channels are set.
void decompress(std::span<const std::byte> file, TJPF pixel_format, Image& picture) {
  const tjhandle handle = decompressor();
  const auto decompress_with = [&](int flags) {
    return tjDecompress2(handle, reinterpret_cast<const unsigned char*>(file.data()), file.size(),
                         picture.pixels.data(), picture.width, static_cast<int>(picture.row_bytes()), picture.height,
                         pixel_format, flags) == 0;
  };
  constexpr int flags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
  // A warning means that something is missing or wrong, such as the end of the file.
  if (decompress_with(flags | TJFLAG_STOPONWARNING)) return;
  std::string why = tjGetErrorStr2(handle);
  // libjpeg-turbo tells of the first warning only, which here hides that the end is missing.
  if (is_harmless(why)) {
    if (!has_end_marker(file)) throw Error(ErrorCode::corrupt, "the JPEG is cut off: it has no end marker");
    if (decompress_with(flags) || tjGetErrorCode(handle) == TJERR_WARNING) return;
    why = tjGetErrorStr2(handle);
  }
  throw Error(ErrorCode::corrupt, "the JPEG is damaged or cut off: " + why);
}

/// Returns a·b ÷ 255, rounded.
int times_of_255(int a, int b) {
  const int product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

/// Converts ink on white paper to light.
void to_light(const Image& inks, bool is_inverted, Image& picture) {
  const int flip = is_inverted ? 0 : 255;
  const std::uint8_t* in = inks.pixels.data();
  for (std::size_t at = 0; at < picture.pixels.size(); at += 3, in += 4) {
    const int paper = in[3] ^ flip;  // what black leaves of the light
    for (int c = 0; c < 3; ++c)
      picture.pixels[at + c] = static_cast<std::uint8_t>(paper - times_of_255((in[c] ^ flip) ^ 255, paper));
  }
}

}  // namespace

PictureInfo inspect_jpeg(std::span<const std::byte> file) { return info_of(read_jpeg_header(file)); }

PictureInfo decode_jpeg(std::span<const std::byte> file, const DecodeOptions& options, Image& picture) {
  const JpegHeader header = read_jpeg_header(file);
  const PictureInfo info = info_of(header);
  check_limits(info, options.limits);
  const tjscalingfactor scale = scale_of(header, options.least_side);
  const int width = TJSCALED(header.width, scale);
  const int height = TJSCALED(header.height, scale);
  const bool is_gray = options.channels == 1 || (options.channels == 0 && header.components == 1);
  picture.resize(width, height, is_gray ? 1 : 3);
  if (header.components != 4) {
    decompress(file, is_gray ? TJPF_GRAY : TJPF_RGB, picture);
    return info;
  }
  Image inks;
  inks.resize(width, height, 4);
  decompress(file, TJPF_CMYK, inks);
  picture.resize(width, height, 3);
  to_light(inks, header.has_adobe, picture);
  if (is_gray) to_gray(picture);
  return info;
}

}  // namespace lockstep::vision
