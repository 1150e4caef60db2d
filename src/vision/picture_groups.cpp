// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_groups.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "vision/transforms/geometry.hpp"

namespace lockstep::vision {
namespace {

/// Returns the extents of the input for a picture. @param unit  what sides are rounded up to, in pixels
Size input_of_picture(const Size& picture, const Size& input, int stride, int unit) {
  const Size fitting = letterboxed(input, picture.width, picture.height);
  const auto with_margin = [stride](int side) { return (2 * side + 3 * stride - 1) / (2 * stride) * stride; };
  const auto extent = [&](int side, int largest) {
    return std::min((with_margin(side) + unit - 1) / unit * unit, with_margin(largest));
  };
  return {.width = extent(fitting.width, input.width), .height = extent(fitting.height, input.height)};
}

using Groups = std::map<std::pair<int, int>, PictureGroup>;  // by height and width

/// @param input_of  returns the extents of the input for a picture, whose sides are rounded up to `unit` pixels
template <typename InputOf>
Groups groups_of(std::span<const Size> sizes, int unit, const InputOf& input_of) {
  Groups groups;
  for (std::size_t sample = 0; sample < sizes.size(); ++sample) {
    if (sizes[sample].width == 0) continue;
    const Size extents = input_of(sizes[sample], unit);
    groups[{extents.height, extents.width}].samples.push_back(static_cast<std::int64_t>(sample));
  }
  return groups;
}

/// Makes at most `most` groups, of sides that are rounded up to as few strides as that takes.
/// @param transforms_of  returns the transforms for a size of the input
template <typename InputOf, typename TransformsOf>
std::vector<PictureGroup> few_groups(std::span<const Size> sizes, int stride, std::size_t most, const InputOf& input_of,
                                     const TransformsOf& transforms_of) {
  Groups groups = groups_of(sizes, stride, input_of);
  for (int unit = 2 * stride; groups.size() > most; unit += stride) groups = groups_of(sizes, unit, input_of);
  std::vector<PictureGroup> result;
  for (auto& [extents, group] : groups) {
    const Size size{.width = extents.second, .height = extents.first};
    group.size = {.size = size, .transforms = transforms_of(size)};
    result.push_back(std::move(group));
  }
  for (std::size_t sample = 0; sample < sizes.size() && !result.empty(); ++sample)
    if (sizes[sample].width == 0) result.front().samples.push_back(static_cast<std::int64_t>(sample));
  if (!result.empty()) std::ranges::sort(result.front().samples);
  return result;
}

}  // namespace

std::vector<PictureGroup> groups_by_ratio(std::span<const Size> sizes, const Size& input, int stride,
                                          std::size_t most) {
  return few_groups(
      sizes, stride, most,
      [&](const Size& picture, int unit) { return input_of_picture(picture, input, stride, unit); },
      [&](const Size& size) { return std::vector<Transform>{letterbox(size, input)}; });
}

std::vector<PictureGroup> groups_by_scale(std::span<const Size> sizes, double factor, const Size& input, int stride,
                                          std::size_t most) {
  constexpr std::int64_t most_pixels = 1 << 22;
  const auto input_of = [&](const Size& picture, int unit) {
    const Size own = scaled(picture, factor);
    if (std::int64_t{own.width} * own.height > most_pixels)
      throw Error(ErrorCode::invalid_argument,
                  "a picture of " + std::to_string(picture.width) + "×" + std::to_string(picture.height) +
                      " pixels is too large to be evaluated at scale " + short_text(factor) +
                      ", at which it has more than " + std::to_string(most_pixels) +
                      " of them; give a smaller scale (--eval-scale)");
    const auto rounded = [unit](int side) { return (side + unit - 1) / unit * unit; };
    return own == input ? own : Size{.width = rounded(own.width), .height = rounded(own.height)};
  };
  return few_groups(sizes, stride, most, input_of, [&](const Size& size) {
    return std::vector<Transform>{random_scale(factor, factor), random_crop(size)};
  });
}

std::vector<PictureGroup> groups_by_line(std::span<const Size> sizes, const Size& input, LineEnd end,
                                         std::size_t most) {
  constexpr int zeros_stride = 32;
  constexpr int most_heights = 64;
  const bool has_zeros = end == LineEnd::zeros;
  const int stride = has_zeros ? zeros_stride : input.height;
  const auto input_of = [&](const Size& picture, int unit) {
    const int own = std::min(input_width_of_line(picture, input.height, end), most_heights * input.height);
    return has_zeros && own <= input.width ? input
                                           : Size{.width = (own + unit - 1) / unit * unit, .height = input.height};
  };
  return few_groups(sizes, stride, most, input_of,
                    [&](const Size& size) { return std::vector<Transform>{fit_line(size, end)}; });
}

}  // namespace lockstep::vision
