// SPDX-License-Identifier: Apache-2.0
#include "vision/image/draw.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "vision/image/color.hpp"
#include "vision/image/font.hpp"

namespace lockstep::vision {
namespace {

constexpr Color white{255, 255, 255};
constexpr Color black{0, 0, 0};

std::uint8_t brightness_of(const Color& color) { return gray_of(color.red, color.green, color.blue); }

void set_pixel(int x, int y, const Color& color, Image& picture) {
  if (x < 0 || y < 0 || x >= picture.width || y >= picture.height) return;
  std::uint8_t* pixel = picture.row(y).data() + static_cast<std::ptrdiff_t>(x) * picture.channels;
  if (picture.channels == 1) {
    pixel[0] = brightness_of(color);
  } else {
    pixel[0] = color.red;
    pixel[1] = color.green;
    pixel[2] = color.blue;
  }
}

/// Takes the next character from the front of UTF-8. A byte that begins none is a character of its own, outside of
/// ASCII.
char32_t take_character(std::string_view& text) {
  constexpr char32_t unknown = 0xFFFD;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  std::size_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  const bool is_whole = bytes > 0 && bytes <= text.size() &&
                        std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(bytes),
                                    [](char next) { return (static_cast<unsigned char>(next) & 0xC0) == 0x80; });
  if (!is_whole) bytes = 1;
  text.remove_prefix(bytes);
  return lead < 0x80 ? lead : unknown;
}

void draw_glyph(const Glyph& glyph, int left, int top, const Color& color, Image& picture) {
  for (int y = 0; y < glyph_height; ++y) {
    for (int x = 0; x < glyph_width; ++x)
      if ((glyph[y] >> (glyph_width - 1 - x) & 1) != 0) set_pixel(left + x, top + y, color, picture);
  }
}

/// Copies a picture to a place where it fits, as three channels if the sheet has them.
void put(const Image& picture, int left, int top, Image& sheet) {
  for (int y = 0; y < picture.height; ++y) {
    const auto in = picture.row(y);
    std::uint8_t* out = sheet.row(top + y).data() + static_cast<std::ptrdiff_t>(left) * sheet.channels;
    if (picture.channels == sheet.channels) {
      std::memcpy(out, in.data(), in.size());
    } else {
      for (const std::uint8_t value : in) out = std::fill_n(out, sheet.channels, value);
    }
  }
}

}  // namespace

Color class_color(int label) {
  static constexpr std::array<Color, 12> colors{{{230, 25, 75},
                                                 {60, 180, 75},
                                                 {0, 130, 200},
                                                 {255, 225, 25},
                                                 {145, 30, 180},
                                                 {70, 240, 240},
                                                 {245, 130, 48},
                                                 {240, 50, 230},
                                                 {210, 245, 60},
                                                 {0, 128, 128},
                                                 {170, 110, 40},
                                                 {0, 0, 128}}};
  return colors[static_cast<unsigned>(label) % colors.size()];
}

std::array<std::array<std::uint8_t, 3>, 256> class_palette() {
  std::array<std::array<std::uint8_t, 3>, 256> palette{};
  for (unsigned label = 0; label < palette.size(); ++label)
    for (unsigned bit = 0; bit < 8; ++bit) {  // three bits of the number at a time are the next lower bit of each color
      const unsigned shift = bit / 3;
      if ((label >> bit & 1U) != 0) palette[label][bit % 3] |= static_cast<std::uint8_t>(0x80U >> shift);
    }
  return palette;
}

void fill(const Region& region, const Color& color, Image& picture) {
  // Wider numbers, because the edges of regions beyond the picture may not fit.
  const auto right = std::min<std::int64_t>(std::int64_t{region.left} + region.width, picture.width);
  const auto bottom = std::min<std::int64_t>(std::int64_t{region.top} + region.height, picture.height);
  for (int y = std::max(region.top, 0); y < bottom; ++y)
    for (int x = std::max(region.left, 0); x < right; ++x) set_pixel(x, y, color, picture);
}

void draw_mask(const Image& mask, Image& picture) {
  static const auto palette = class_palette();
  for (int y = 0; y < std::min(mask.height, picture.height); ++y) {
    const auto classes = mask.row(y);
    const auto row = picture.row(y);
    for (int x = 0; x < std::min(mask.width, picture.width); ++x) {
      const std::uint8_t label = classes[static_cast<std::size_t>(x)];
      if (label == left_out_pixel) continue;
      const std::array<std::uint8_t, 3>& color = palette[label];
      const auto channels = static_cast<std::size_t>(picture.channels);
      for (std::size_t channel = 0; channel < channels; ++channel) {
        std::uint8_t& value = row[static_cast<std::size_t>(x) * channels + channel];
        value = static_cast<std::uint8_t>((value + color[channel] + 1) / 2);
      }
    }
  }
}

void draw_rectangle(const Region& region, int line, const Color& color, Image& picture) {
  const auto [left, top, width, height] = region;
  const int across = std::min(line, width);
  const int down = std::min(line, height);
  fill({left, top, width, down}, color, picture);
  fill({left, top + height - down, width, down}, color, picture);
  fill({left, top, across, height}, color, picture);
  fill({left + width - across, top, across, height}, color, picture);
}

int text_width(std::string_view text) {
  int width = 0;
  for (; !text.empty(); width += glyph_width) take_character(text);
  return width;
}

void draw_label(std::string_view text, int left, int top, const Color& color, Image& picture) {
  const int width = text_width(text);
  left = std::max(std::min(left, picture.width - width), 0);
  top = std::max(std::min(top, picture.height - glyph_height), 0);
  fill({left, top, width, glyph_height}, color, picture);
  const Color& ink = brightness_of(color) > 140 ? black : white;
  for (; !text.empty(); left += glyph_width) draw_glyph(glyph_of(take_character(text)), left, top, ink, picture);
}

void put_side_by_side(std::span<const Image> pictures, int columns, int gap, Image& sheet) {
  int width = 0;
  int height = 0;
  int channels = 1;
  for (const Image& picture : pictures) {
    width = std::max(width, picture.width);
    height = std::max(height, picture.height);
    channels = std::max(channels, picture.channels);
  }
  const int count = static_cast<int>(pictures.size());
  const int across = std::clamp(count, 1, std::max(columns, 1));
  const int rows = std::max((count + across - 1) / across, 1);
  sheet.resize(across * (width + gap) - gap, rows * (height + gap) - gap, channels);
  std::fill(sheet.pixels.begin(), sheet.pixels.end(), white.red);
  for (int i = 0; i < count; ++i) put(pictures[i], i % across * (width + gap), i / across * (height + gap), sheet);
}

}  // namespace lockstep::vision
