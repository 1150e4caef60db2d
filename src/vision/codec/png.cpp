// SPDX-License-Identifier: Apache-2.0
// PNG by libspng. Numbers of 16 bits lose their lower half. Color profiles and gamma are left alone, as Pillow does.
#include <spng.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "lockstep/base/error.hpp"
#include "vision/codec/decoders.hpp"
#include "vision/codec/upright.hpp"
#include "vision/image/color.hpp"

namespace lockstep::vision {
namespace {

struct EndContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, EndContext>;

void require_png(int result) {
  if (result == SPNG_OK) return;
  throw Error(ErrorCode::corrupt, std::string("the PNG is damaged or cut off: ") + spng_strerror(result));
}

Context open_png(std::span<const std::byte> file, const DecodeLimits& limits) {
  Context context(spng_ctx_new(0));
  if (!context) throw std::bad_alloc();
  require_png(spng_set_png_buffer(context.get(), file.data(), file.size()));
  // Texts and profiles may be compressed, and are unpacked as far as a picture may be.
  const auto most = static_cast<std::size_t>(limits.pixels);
  require_png(spng_set_chunk_limits(context.get(), most, most));
  return context;
}

/// What a walk over the chunks of a file finds, without looking into those of pixels.
struct PngChunks {
  int orientation =
      1;  ///< from the chunk eXIf, which may also stand behind the pixels, where libspng finds it too late
  bool is_whole =
      false;  ///< whether the last chunk is there with all its bytes, of which libspng leaves out the checksum
};

PngChunks walk(std::span<const std::byte> file) {
  constexpr std::size_t frame = 12;  // length, type and checksum of a chunk
  PngChunks found;
  for (std::size_t at = 8; at < file.size() && file.size() - at >= frame && !found.is_whole;) {
    std::size_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::size_t>(file[at + i]);
    if (length > file.size() - at - frame) break;
    const auto is_type = [&](const char* type) { return std::memcmp(file.data() + at + 4, type, 4) == 0; };
    if (is_type("eXIf")) found.orientation = exif_orientation(file.subspan(at + 8, length));
    found.is_whole = is_type("IEND");
    at += frame + length;
  }
  return found;
}

spng_ihdr image_header_of(spng_ctx* context) {
  spng_ihdr header{};
  require_png(spng_get_ihdr(context, &header));
  return header;
}

PictureInfo info_of(const spng_ihdr& header, const PngChunks& chunks) {
  // libspng refuses more than 2³¹ − 1.
  return upright(
      {PictureFormat::png, static_cast<int>(header.width), static_cast<int>(header.height), chunks.orientation});
}

void decode_as(spng_ctx* context, int pixel_format, int flags, std::vector<std::uint8_t>& pixels) {
  std::size_t bytes = 0;
  require_png(spng_decoded_image_size(context, pixel_format, &bytes));
  pixels.resize(bytes);
  require_png(spng_decode_image(context, pixels.data(), bytes, pixel_format, flags));
}

/// Decodes the indices of a picture with a palette, of which several may share a byte.
void decode_indices(spng_ctx* context, const spng_ihdr& header, Image& picture) {
  std::vector<std::uint8_t> packed;
  decode_as(context, SPNG_FMT_PNG, 0, packed);
  const int bits = header.bit_depth;
  const int mask = (1 << bits) - 1;
  const std::size_t packed_row = packed.size() / header.height;
  for (int y = 0; y < picture.height; ++y) {
    const std::uint8_t* in = packed.data() + y * packed_row;
    const auto out = picture.row(y);
    for (int x = 0; x < picture.width; ++x) {
      const int bit = x * bits;
      out[x] = static_cast<std::uint8_t>(in[bit / 8] >> (8 - bits - bit % 8) & mask);
    }
  }
}

/// Decodes a picture with transparency and puts it on white.
void decode_over_white(spng_ctx* context, Image& picture) {
  std::vector<std::uint8_t> pixels;
  decode_as(context, SPNG_FMT_RGBA8, SPNG_DECODE_TRNS, pixels);
  const std::uint8_t* in = pixels.data();
  for (std::size_t at = 0; at < picture.pixels.size(); at += 3, in += 4) {
    for (int c = 0; c < 3; ++c) {
      const int sum = in[c] * in[3] + 255 * (255 - in[3]);
      picture.pixels[at + c] = static_cast<std::uint8_t>((sum + 127) / 255);
    }
  }
}

bool has_transparency(spng_ctx* context, const spng_ihdr& header) {
  spng_trns transparency{};
  return header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA || header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA ||
         spng_get_trns(context, &transparency) == SPNG_OK;
}

/// Decodes a picture whose extents are set, to three channels or to one.
void decode_colors(spng_ctx* context, const spng_ihdr& header, int channels, Image& picture) {
  const bool is_gray =
      header.color_type == SPNG_COLOR_TYPE_GRAYSCALE || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  const bool wants_gray = channels == 1 || (channels == 0 && is_gray);
  const bool is_transparent = has_transparency(context, header);
  if (wants_gray && !is_transparent && header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth <= 8) {
    picture.channels = 1;
    return decode_as(context, SPNG_FMT_G8, 0, picture.pixels);
  }
  picture.resize(picture.width, picture.height, 3);
  if (is_transparent) {
    decode_over_white(context, picture);
  } else {
    decode_as(context, SPNG_FMT_RGB8, 0, picture.pixels);
  }
  if (wants_gray) to_gray(picture);
}

}  // namespace

PictureInfo inspect_png(std::span<const std::byte> file, const DecodeLimits& limits) {
  const Context context = open_png(file, limits);
  return info_of(image_header_of(context.get()), walk(file));
}

PictureInfo decode_png(std::span<const std::byte> file, const DecodeOptions& options, Image& picture) {
  const Context context = open_png(file, options.limits);
  const spng_ihdr header = image_header_of(context.get());
  const PngChunks chunks = walk(file);
  const PictureInfo info = info_of(header, chunks);
  check_limits(info, options.limits);
  if (!chunks.is_whole) throw Error(ErrorCode::corrupt, "the PNG is cut off");
  picture.width = static_cast<int>(header.width);
  picture.height = static_cast<int>(header.height);
  if (options.palette_indices && header.color_type == SPNG_COLOR_TYPE_INDEXED) {
    picture.resize(picture.width, picture.height, 1);
    decode_indices(context.get(), header, picture);
  } else {
    decode_colors(context.get(), header, options.channels, picture);
  }
  require_png(spng_decode_chunks(context.get()));  // what follows the pixels may be damaged, too
  return info;
}

std::vector<std::byte> encode_png(const Image& picture, const Palette* palette) {
  const Context context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (!context) throw std::bad_alloc();
  require_png(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(picture.width);
  header.height = static_cast<std::uint32_t>(picture.height);
  header.bit_depth = 8;
  header.color_type = picture.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  if (palette != nullptr) header.color_type = SPNG_COLOR_TYPE_INDEXED;
  require_png(spng_set_ihdr(context.get(), &header));
  if (palette != nullptr) {
    spng_plte entries{};
    for (const auto& [red, green, blue] : *palette) entries.entries[entries.n_entries++] = {red, green, blue, 255};
    require_png(spng_set_plte(context.get(), &entries));
  }
  require_png(spng_encode_image(context.get(), picture.pixels.data(), picture.pixels.size(), SPNG_FMT_PNG,
                                SPNG_ENCODE_FINALIZE));
  std::size_t bytes = 0;
  int result = SPNG_OK;
  const std::unique_ptr<void, void (*)(void*)> encoded(spng_get_png_buffer(context.get(), &bytes, &result), std::free);
  require_png(result);
  const auto* begin = static_cast<const std::byte*>(encoded.get());
  return {begin, begin + bytes};
}

}  // namespace lockstep::vision
