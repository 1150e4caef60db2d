// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_groups.hpp"

#include <algorithm>
#include <map>
#include <utility>

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

Groups groups_of(std::span<const Size> sizes, const Size& input, int stride, int unit) {
  Groups groups;
  for (std::size_t sample = 0; sample < sizes.size(); ++sample) {
    if (sizes[sample].width == 0) continue;
    const Size extents = input_of_picture(sizes[sample], input, stride, unit);
    groups[{extents.height, extents.width}].samples.push_back(static_cast<std::int64_t>(sample));
  }
  return groups;
}

}  // namespace

std::vector<PictureGroup> groups_by_ratio(std::span<const Size> sizes, const Size& input, int stride,
                                          std::size_t most) {
  Groups groups = groups_of(sizes, input, stride, stride);
  for (int unit = 2 * stride; groups.size() > most; unit += stride) groups = groups_of(sizes, input, stride, unit);
  std::vector<PictureGroup> result;
  for (auto& [extents, group] : groups) {
    const Size size{.width = extents.second, .height = extents.first};
    group.size = {.size = size, .transforms = {letterbox(size, input)}};
    result.push_back(std::move(group));
  }
  for (std::size_t sample = 0; sample < sizes.size() && !result.empty(); ++sample)
    if (sizes[sample].width == 0) result.front().samples.push_back(static_cast<std::int64_t>(sample));
  if (!result.empty()) std::ranges::sort(result.front().samples);
  return result;
}

}  // namespace lockstep::vision
