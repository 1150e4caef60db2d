// SPDX-License-Identifier: Apache-2.0
#include "vision/codec/upright.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

namespace lockstep::vision {
namespace {

/// Numbers of a TIFF header in its byte order.
class TiffNumbers {
 public:
  explicit TiffNumbers(std::span<const std::byte> data) : data_(data) {
    if (data.size() < 8) return;
    const int first = std::to_integer<int>(data[0]);
    if ((first != 'I' && first != 'M') || data[1] != data[0]) return;
    is_little_ = first == 'I';
    is_tiff_ = number(2, 2) == 42U;
  }

  [[nodiscard]] bool is_tiff() const { return is_tiff_; }
  /// Returns a number of `bytes` bytes; nothing if it does not lie in the data.
  [[nodiscard]] std::optional<std::uint32_t> number(std::size_t at, std::size_t bytes) const {
    if (at > data_.size() || data_.size() - at < bytes) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(data_[is_little_ ? at + bytes - 1 - i : at + i]);
    return value;
  }

 private:
  std::span<const std::byte> data_;
  bool is_little_ = false;
  bool is_tiff_ = false;
};

template <int channels>
void turn_pixels(const Image& from, int orientation, Image& to) {
  const bool transposes = orientation >= 5;
  // In the upright picture one step to the right is `step` bytes in the stored one, and one step down is `row_step`.
  const auto pixel = static_cast<std::ptrdiff_t>(channels);
  const auto row = static_cast<std::ptrdiff_t>(from.row_bytes());
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const std::ptrdiff_t along_row = from_right ? -pixel : pixel;
  const std::ptrdiff_t along_column = from_bottom ? -row : row;
  const std::ptrdiff_t step = transposes ? along_column : along_row;
  const std::ptrdiff_t row_step = transposes ? along_row : along_column;
  const std::uint8_t* corner =
      from.pixels.data() + (from_right ? (from.width - 1) * pixel : 0) + (from_bottom ? (from.height - 1) * row : 0);
  std::uint8_t* out = to.pixels.data();
  for (int y = 0; y < to.height; ++y) {
    const std::uint8_t* in = corner + y * row_step;
    for (int x = 0; x < to.width; ++x, in += step, out += channels) std::memcpy(out, in, channels);
  }
}

}  // namespace

int exif_orientation(std::span<const std::byte> tiff) {
  constexpr std::uint32_t orientation_tag = 0x0112;
  constexpr std::uint32_t type_short = 3;
  const TiffNumbers numbers(tiff);
  const auto folder = numbers.is_tiff() ? numbers.number(4, 4) : std::nullopt;
  if (!folder) return 1;
  const std::uint32_t entries = numbers.number(*folder, 2).value_or(0);
  for (std::uint32_t entry = 0; entry < entries; ++entry) {
    const std::size_t at = std::size_t{*folder} + 2 + std::size_t{12} * entry;
    const auto tag = numbers.number(at, 2);
    if (!tag) return 1;
    if (*tag != orientation_tag || numbers.number(at + 2, 2) != type_short || numbers.number(at + 4, 4) != 1U) continue;
    const std::uint32_t value = numbers.number(at + 8, 2).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

PictureInfo upright(PictureInfo stored) {
  if (stored.orientation >= 5) std::swap(stored.width, stored.height);
  return stored;
}

void turn_upright(Image& picture, int orientation) {
  if (orientation <= 1 || orientation > 8) return;
  const bool transposes = orientation >= 5;
  Image turned;
  turned.resize(transposes ? picture.height : picture.width, transposes ? picture.width : picture.height,
                picture.channels);
  if (picture.channels == 1) {
    turn_pixels<1>(picture, orientation, turned);
  } else {
    turn_pixels<3>(picture, orientation, turned);
  }
  std::swap(picture, turned);
}

}  // namespace lockstep::vision
