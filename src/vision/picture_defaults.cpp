// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_defaults.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/wrapped.hpp"
#include "data/channel_sums.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

constexpr int small_side = 64;
constexpr Size usual_size{.width = 224, .height = 224};

/// Returns the size that all good pictures have; nothing if they differ or one is not accepted.
template <typename Accepts>
std::optional<Size> common_size(const Source& source, const Accepts& accepts) {
  if (is_in_memory(source) && source.size() > 0) {  // they have one size
    const Image first = first_picture(source);
    const Size size{.width = first.width, .height = first.height};
    return accepts(size) ? std::optional(size) : std::nullopt;
  }
  std::optional<Size> common;
  std::vector<std::byte> bytes;
  for (std::int64_t sample = 0; sample < source.size(); ++sample) {
    const auto size = size_of_sample(source, sample, bytes);
    if (!size) continue;
    if (!accepts(*size) || (common && *size != *common)) return {};
    common = size;
  }
  return common;
}

}  // namespace

bool is_in_memory(const Source& source) {
  for (std::int64_t sample = 0; sample < source.size(); ++sample)
    if (source.stored_bytes(sample) > 0) return false;  // usually the first; it may be an empty file
  return true;
}

std::optional<Size> size_of_sample(const Source& source, std::int64_t sample, std::vector<std::byte>& bytes) {
  source.read(sample, bytes);
  try {
    const PictureInfo info = inspect(bytes);
    return Size{info.width, info.height};
  } catch (const Error& error) {
    const bool is_foreign = error.code() == ErrorCode::unsupported && !is_supported(format_of(bytes));
    if (error.code() != ErrorCode::corrupt && !is_foreign) throw;
    return {};
  }
}

InputSize default_input(const Source& source) {
  const auto common =
      common_size(source, [](const Size& size) { return std::max(size.width, size.height) <= small_side; });
  if (common) return {.size = *common, .are_equal = true};
  return given_input(source, usual_size);
}

InputSize given_input(const Source& source, const Size& size) {
  return {.size = size, .are_equal = common_size(source, [&](const Size& other) { return other == size; }).has_value()};
}

std::vector<Size> sizes_between(const Size& input, double least, double most) {
  const int longer = std::max(input.width, input.height);
  const int shorter = std::min(input.width, input.height);
  const int stride = shorter < small_side ? 8 : 32;
  std::vector<Size> sizes;
  for (int side = stride; side <= most * longer; side += stride) {
    if (side < least * longer) continue;
    const double other = static_cast<double>(side) * shorter / longer / stride;
    const int rounded = std::max(static_cast<int>(std::floor(other + 0.5)), 1) * stride;
    sizes.push_back(input.width >= input.height ? Size{.width = side, .height = rounded}
                                                : Size{.width = rounded, .height = side});
  }
  if (sizes.size() >= 2) return sizes;
  throw Error(ErrorCode::invalid_argument,
              format_text("between %g and %g there are fewer than two multiples of ", least * longer, most * longer) +
                  std::to_string(stride) +
                  " pixels, which steps of different sizes need; give a wider range, or a larger input");
}

Image first_picture(const Source& source) {
  std::vector<std::byte> bytes;
  Image picture;
  source.read(0, bytes);
  source.decode(0, bytes, {.channels = 0}, picture);
  return picture;
}

int default_channels(const Source& source) {
  return source.size() == 0 || !is_in_memory(source) ? 3 : first_picture(source).channels;
}

Normalization default_normalization(const Source& source, int channels) {
  if (!is_in_memory(source)) {
    if (channels == 1) return {.mean = {0.449}, .deviation = {0.226}};
    return {.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}};
  }
  std::vector<data::ChannelSums> sums(static_cast<std::size_t>(channels));
  std::vector<std::byte> bytes;
  Image picture;
  double pixels = 0;
  for (std::int64_t sample = 0; sample < source.size(); ++sample) {
    source.read(sample, bytes);
    source.decode(sample, bytes, {.channels = channels}, picture);
    for (std::size_t channel = 0; channel < sums.size(); ++channel)
      for (std::size_t i = channel; i < picture.pixels.size(); i += sums.size()) sums[channel].add(picture.pixels[i]);
    pixels += static_cast<double>(picture.pixels.size()) / channels;
  }
  Normalization normalization;
  for (const data::ChannelSums& channel : sums) data::append_channel(channel, pixels, normalization);
  return normalization;
}

}  // namespace lockstep::vision
