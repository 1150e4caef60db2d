// SPDX-License-Identifier: Apache-2.0
#include "vision/pictures.hpp"

#include <gtest/gtest.h>
#include <spng.h>
#include <turbojpeg.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace lockstep::vision {
namespace {

void append(File& file, std::initializer_list<int> bytes) {
  for (const int byte : bytes) file.push_back(static_cast<std::byte>(byte));
}

void require_encoded(int result) {
  if (result != 0) throw std::runtime_error(std::string("libspng: ") + spng_strerror(result));
}

}  // namespace

Image patterned(int width, int height, int channels) {
  Image picture;
  picture.resize(width, height, channels);
  std::uint8_t* out = picture.pixels.data();
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) *out++ = static_cast<std::uint8_t>(x * 37 + y * 59 + c * 83 + x * y * 7);
  return picture;
}

Image blocks() {
  Image picture;
  picture.resize(24, 16, 1);
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 24; ++x) picture.row(y)[x] = static_cast<std::uint8_t>(50 * (x / 8 + 3 * (y / 8)));
  return picture;
}

File make_jpeg(const Image& picture, const JpegForm& form) {
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitCompress(), tjDestroy);
  const int pixel_format = picture.channels == 1 ? TJPF_GRAY : picture.channels == 3 ? TJPF_RGB : TJPF_CMYK;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int flags = TJFLAG_ACCURATEDCT | (form.is_progressive ? TJFLAG_PROGRESSIVE : 0);
  const int failed =
      tjCompress2(handle.get(), picture.pixels.data(), picture.width, 0, picture.height, pixel_format, &bytes, &size,
                  picture.channels == 1 ? TJSAMP_GRAY : form.subsampling, form.quality, flags);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(bytes, tjFree);
  if (failed != 0) throw std::runtime_error(tjGetErrorStr2(handle.get()));
  const auto* begin = reinterpret_cast<const std::byte*>(bytes);
  return {begin, begin + size};
}

File with_segment(const File& jpeg, int marker, const File& contents) {
  File file(jpeg.begin(), jpeg.begin() + 2);
  const int length = static_cast<int>(contents.size()) + 2;
  append(file, {0xFF, marker, length >> 8, length & 255});
  file.insert(file.end(), contents.begin(), contents.end());
  file.insert(file.end(), jpeg.begin() + 2, jpeg.end());
  return file;
}

File without_segments(const File& jpeg, int marker) {
  File file(jpeg.begin(), jpeg.begin() + 2);
  std::size_t at = 2;
  while (std::to_integer<int>(jpeg[at + 1]) != 0xDA) {
    const auto length = std::to_integer<std::size_t>(jpeg[at + 2]) << 8 | std::to_integer<std::size_t>(jpeg[at + 3]);
    const auto begin = jpeg.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::to_integer<int>(jpeg[at + 1]) != marker)
      file.insert(file.end(), begin, begin + static_cast<std::ptrdiff_t>(length) + 2);
    at += length + 2;
  }
  file.insert(file.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(at), jpeg.end());
  return file;
}

File exif_data(int orientation, bool is_little_endian) {
  File data;
  const auto number = [&](int value, int bytes) {
    for (int i = 0; i < bytes; ++i) append(data, {value >> 8 * (is_little_endian ? i : bytes - 1 - i) & 255});
  };
  append(data, {is_little_endian ? 'I' : 'M', is_little_endian ? 'I' : 'M'});
  number(42, 2);
  number(8, 4);  // where the folder of entries begins
  number(2, 2);  // entries: tag, type, count, value
  number(0x0100, 2), number(3, 2), number(1, 4), number(7, 2), number(0, 2);
  number(0x0112, 2), number(3, 2), number(1, 4), number(orientation, 2), number(0, 2);
  number(0, 4);  // no further folder
  return data;
}

File exif_segment(int orientation, bool is_little_endian) {
  File segment;
  append(segment, {'E', 'x', 'i', 'f', 0, 0});
  const File data = exif_data(orientation, is_little_endian);
  segment.insert(segment.end(), data.begin(), data.end());
  return segment;
}

File make_png(int width, int height, const PngForm& form, std::span<const std::uint8_t> rows) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  require_encoded(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  spng_ihdr header{static_cast<std::uint32_t>(width),
                   static_cast<std::uint32_t>(height),
                   static_cast<std::uint8_t>(form.bit_depth),
                   static_cast<std::uint8_t>(form.color_type),
                   0,
                   0,
                   static_cast<std::uint8_t>(form.is_interlaced)};
  require_encoded(spng_set_ihdr(context.get(), &header));
  if (!form.palette.empty()) {
    spng_plte palette{};
    palette.n_entries = static_cast<std::uint32_t>(form.palette.size());
    for (std::size_t i = 0; i < form.palette.size(); ++i)
      palette.entries[i] = {form.palette[i][0], form.palette[i][1], form.palette[i][2], 255};
    require_encoded(spng_set_plte(context.get(), &palette));
  }
  if (form.transparent || !form.palette_alpha.empty()) {
    spng_trns transparency{};
    const auto value = form.transparent.value_or(std::array{0, 0, 0});
    transparency.gray = transparency.red = static_cast<std::uint16_t>(value[0]);
    transparency.green = static_cast<std::uint16_t>(value[1]);
    transparency.blue = static_cast<std::uint16_t>(value[2]);
    transparency.n_type3_entries = static_cast<std::uint32_t>(form.palette_alpha.size());
    std::copy(form.palette_alpha.begin(), form.palette_alpha.end(), transparency.type3_alpha);
    require_encoded(spng_set_trns(context.get(), &transparency));
  }
  File exif = form.exif.value_or(File{});
  if (!exif.empty()) {
    spng_exif chunk{exif.size(), reinterpret_cast<char*>(exif.data())};
    require_encoded(spng_set_exif(context.get(), &chunk));
  }
  require_encoded(spng_encode_image(context.get(), rows.data(), rows.size(), SPNG_FMT_RAW, SPNG_ENCODE_FINALIZE));
  std::size_t size = 0;
  int result = 0;
  const std::unique_ptr<void, void (*)(void*)> owner(spng_get_png_buffer(context.get(), &size, &result), std::free);
  require_encoded(result);
  const auto* begin = static_cast<const std::byte*>(owner.get());
  return {begin, begin + size};
}

Image decoded(const File& file, const DecodeOptions& options) {
  Image picture;
  decode(file, options, picture);
  return picture;
}

}  // namespace lockstep::vision
