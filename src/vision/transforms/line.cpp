// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "vision/image/bilinear.hpp"
#include "vision/image/resize.hpp"
#include "vision/transforms/geometry.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {
namespace {

int ceiling(std::int64_t dividend, std::int64_t divisor) {
  return static_cast<int>((dividend + divisor - 1) / divisor);
}

/// Repeats the last column of a picture up to a width.
void repeat_last_column(int width, Image& picture, Image& scratch) {
  const auto channels = static_cast<std::size_t>(picture.channels);
  scratch.resize(width, picture.height, picture.channels);
  for (int y = 0; y < picture.height; ++y) {
    const auto from = std::as_const(picture).row(y);
    const auto to = scratch.row(y);
    std::copy(from.begin(), from.end(), to.begin());
    for (std::size_t i = from.size(); i < to.size(); ++i) to[i] = to[i - channels];
  }
  std::swap(picture, scratch);
}

/// EasyOCR resizes a picture that is higher than wide to the width of its input's height first.
/// @return the height that it has then
int height_of_tall_line(const Size& picture, int width) {
  const double ratio = 1.0 / (static_cast<double>(picture.width) / picture.height);
  return static_cast<int>(width * ratio);
}

}  // namespace

int width_of_line(const Size& picture, int height, LineEnd end) {
  const std::int64_t product = std::int64_t{height} * picture.width;
  if (end == LineEnd::zeros) return std::max(ceiling(product, picture.height), 1);
  if (picture.width >= picture.height) return static_cast<int>(product / picture.height);
  return ceiling(std::int64_t{height} * height, height_of_tall_line(picture, height));
}

int input_width_of_line(const Size& picture, int height, LineEnd end) {
  if (end == LineEnd::zeros) return width_of_line(picture, height, end);
  const auto [shorter, longer] = std::minmax(picture.width, picture.height);
  return height * ceiling(longer, shorter);
}

Transform fit_line(Size size, LineEnd end) {
  const bool repeats = end == LineEnd::last_column;
  return {
      .text = (repeats ? "line-repeat:" : "line:") + std::to_string(size.height) + "x" + std::to_string(size.width),
      .apply =
          [size, end, repeats](const data::SampleKey& /*key*/, Image& picture, Annotation& annotation, Image& scratch) {
            const Size before{.width = picture.width, .height = picture.height};
            const int width = std::min(width_of_line(before, size.height, end), size.width);
            if (repeats && before.height > before.width) {
              resize_bilinear(picture, size.height, height_of_tall_line(before, size.height), scratch);
              resize_bicubic(scratch, width, size.height, picture);
            } else {
              resize_bilinear(picture, width, size.height, scratch);
              std::swap(picture, scratch);
            }
            scale_annotation(static_cast<double>(width) / before.width,
                             static_cast<double>(size.height) / before.height, annotation);
            if (repeats && width < size.width) repeat_last_column(size.width, picture, scratch);
          },
      .needed_side = 0,
      .sets_size = true,
      .is_line = !repeats};
}

}  // namespace lockstep::vision
