// SPDX-License-Identifier: Apache-2.0
#include "vision/image/color.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/vectorized.hpp"

namespace lockstep::vision {
namespace {

/// Goes from `from` towards `to` by the factor, or beyond, and cuts off at 0 and 255.
LOCKSTEP_INLINE std::uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<std::uint8_t>(std::min(std::max(value, 0.0F), 255.0F));
}

/// Replaces each value v by blend(from, v, factor).
void blend_all(Image& picture, int from, float factor) {
  std::array<std::uint8_t, 256> blended;
  for (int v = 0; v < 256; ++v) blended[v] = blend(from, v, factor);
  for (std::uint8_t& value : picture.pixels) value = blended[value];
}

LOCKSTEP_VECTORISED void saturate(std::uint8_t* pixels, std::size_t count, float factor) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t* pixel = pixels + 3 * i;
    const int gray = gray_of(pixel[0], pixel[1], pixel[2]);
    for (int c = 0; c < 3; ++c) pixel[c] = blend(gray, pixel[c], factor);
  }
}

/// Mean brightness, rounded.
int mean_gray(const Image& picture) {
  std::uint64_t sum = 0;
  const std::size_t count = picture.pixels.size() / static_cast<std::size_t>(picture.channels);
  if (count == 0) return 0;
  const std::uint8_t* pixel = picture.pixels.data();
  for (std::size_t i = 0; i < count; ++i, pixel += picture.channels)
    sum += picture.channels == 1 ? pixel[0] : gray_of(pixel[0], pixel[1], pixel[2]);
  return static_cast<int>((2 * sum + count) / (2 * count));
}

struct Hsv {
  std::uint8_t hue, saturation, value;
};

// float and double alternate below as they do in Pillow, where each expression with a constant is a double.

Hsv to_hsv(int red, int green, int blue) {
  const int most = std::max({red, green, blue});
  const int least = std::min({red, green, blue});
  if (most == least) return {0, 0, static_cast<std::uint8_t>(most)};
  const auto range = static_cast<float>(most - least);
  const float saturation = range / static_cast<float>(most);
  const auto distance = [&](int channel) { return static_cast<float>(most - channel) / range; };
  float hue = 0;
  if (red == most) {
    hue = distance(blue) - distance(green);
  } else if (green == most) {
    hue = static_cast<float>(2.0 + static_cast<double>(distance(red)) - static_cast<double>(distance(blue)));
  } else {
    hue = static_cast<float>(4.0 + static_cast<double>(distance(green)) - static_cast<double>(distance(red)));
  }
  hue = static_cast<float>(std::fmod(static_cast<double>(hue) / 6.0 + 1.0, 1.0));
  const auto byte = [](float part) {
    return static_cast<std::uint8_t>(static_cast<int>(static_cast<double>(part) * 255.0));
  };
  return {byte(hue), byte(saturation), static_cast<std::uint8_t>(most)};
}

void to_rgb(const Hsv& color, std::uint8_t* pixel) {
  const std::uint8_t v = color.value;
  if (color.saturation == 0) {
    std::fill_n(pixel, 3, v);
    return;
  }
  const double angle = color.hue * 6.0 / 255.0;
  const int sector = static_cast<int>(std::floor(angle));
  const auto rest = static_cast<float>(angle - static_cast<double>(sector));
  const auto saturation = static_cast<float>(static_cast<double>(color.saturation) / 255.0);
  const auto shade = [&](double part) { return static_cast<std::uint8_t>(std::round(static_cast<double>(v) * part)); };
  const std::uint8_t p = shade(1.0 - static_cast<double>(saturation));
  const std::uint8_t q = shade(1.0 - static_cast<double>(saturation * rest));
  const std::uint8_t t = shade(1.0 - static_cast<double>(saturation) * (1.0 - static_cast<double>(rest)));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors{
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::copy_n(sectors[sector % 6].begin(), 3, pixel);
}

constexpr std::size_t block_pixels = 64;  // pixels whose channels lie apart, for vectors

/// The colors of some pixels by channel, 0 … 255.
struct Colors {
  std::array<float, block_pixels> red, green, blue;
};

/// Scales hue (0 … 6), saturation (0 … 1) and value (0 … 255). A channel of a color is
/// value·(1 − saturation·max(0, min(k, 4 − k, 1))) with k = hue + 5, 3 and 1 for red, green and blue, modulo 6.
LOCKSTEP_INLINE void scale_block(Colors& colors, float hue_factor, float saturation_factor, float value_factor) {
  auto& [red, green, blue] = colors;
  for (std::size_t i = 0; i < block_pixels; ++i) {
    const float r = red[i];
    const float g = green[i];
    const float b = blue[i];
    const float most = std::max(r, std::max(g, b));
    const float range = most - std::min(r, std::min(g, b));
    const float divisor = std::max(range, 1.0F);  // whole numbers: a range is 0 or at least 1
    const float near_red = (g - b) / divisor;
    const float near_green = 2.0F + (b - r) / divisor;
    const float near_blue = 4.0F + (r - g) / divisor;
    float hue = most == r ? near_red : most == g ? near_green : near_blue;
    hue = hue < 0.0F ? hue + 6.0F : hue;
    hue = hue * hue_factor;
    hue = hue >= 6.0F ? hue - 6.0F : hue;
    const float saturation = std::min(range / std::max(most, 1.0F) * saturation_factor, 1.0F);
    const float value = std::min(most * value_factor, 255.0F);
    const auto channel = [&](float turn) {
      const float turned = hue + turn;
      const float k = turned >= 6.0F ? turned - 6.0F : turned;
      const float part = std::max(std::min(std::min(k, 4.0F - k), 1.0F), 0.0F);
      return value - value * saturation * part;
    };
    red[i] = channel(5.0F);
    green[i] = channel(3.0F);
    blue[i] = channel(1.0F);
  }
}

LOCKSTEP_VECTORISED void scale_all(std::uint8_t* pixels, std::size_t count, float hue, float saturation, float value) {
  Colors colors{};
  for (std::size_t begin = 0; begin < count; begin += block_pixels) {
    const std::size_t some = std::min(block_pixels, count - begin);
    std::uint8_t* pixel = pixels + 3 * begin;
    for (std::size_t i = 0; i < some; ++i) {
      colors.red[i] = pixel[3 * i];
      colors.green[i] = pixel[3 * i + 1];
      colors.blue[i] = pixel[3 * i + 2];
    }
    scale_block(colors, hue, saturation, value);
    constexpr float half = 0.5F;
    for (std::size_t i = 0; i < some; ++i) {
      pixel[3 * i] = static_cast<std::uint8_t>(colors.red[i] + half);
      pixel[3 * i + 1] = static_cast<std::uint8_t>(colors.green[i] + half);
      pixel[3 * i + 2] = static_cast<std::uint8_t>(colors.blue[i] + half);
    }
  }
}

}  // namespace

void to_gray(Image& picture) {
  if (picture.channels == 1) return;
  const std::size_t count = picture.pixels.size() / 3;
  const std::uint8_t* pixel = picture.pixels.data();
  for (std::size_t i = 0; i < count; ++i, pixel += 3) picture.pixels[i] = gray_of(pixel[0], pixel[1], pixel[2]);
  picture.resize(picture.width, picture.height, 1);
}

void adjust_brightness(Image& picture, float factor) { blend_all(picture, 0, factor); }

void adjust_contrast(Image& picture, float factor) { blend_all(picture, mean_gray(picture), factor); }

void adjust_saturation(Image& picture, float factor) {
  if (picture.channels == 3) saturate(picture.pixels.data(), picture.pixels.size() / 3, factor);
}

void adjust_hue(Image& picture, double turn) {
  if (picture.channels != 3) return;
  const auto shift = static_cast<std::uint8_t>(static_cast<int>(turn * 255.0));
  for (std::size_t at = 0; at < picture.pixels.size(); at += 3) {
    std::uint8_t* pixel = picture.pixels.data() + at;
    Hsv color = to_hsv(pixel[0], pixel[1], pixel[2]);
    color.hue = static_cast<std::uint8_t>(color.hue + shift);
    to_rgb(color, pixel);
  }
}

void scale_hsv(Image& picture, float hue, float saturation, float value) {
  if (picture.channels == 1) return blend_all(picture, 0, value);
  scale_all(picture.pixels.data(), picture.pixels.size() / 3, hue, saturation, value);
}

}  // namespace lockstep::vision
