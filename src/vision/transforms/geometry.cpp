// SPDX-License-Identifier: Apache-2.0
#include "vision/transforms/geometry.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vision/image/resize.hpp"

namespace lockstep::vision {
namespace {

constexpr float least_part = 0.1F;  // of a box's area
constexpr float least_side = 2;     // of a box, in pixels

}  // namespace

void cut_out(int left, int top, int width, int height, std::uint8_t fill, Image& picture, Annotation& annotation,
             Image& scratch) {
  scratch.resize(width, height, picture.channels);
  // The columns of the window that come from the picture.
  const int begin = std::clamp(-left, 0, width);
  const int end = std::clamp(picture.width - left, begin, width);
  const auto channels = static_cast<std::size_t>(picture.channels);
  for (int y = 0; y < height; ++y) {
    const auto row = scratch.row(y);
    const bool is_outside = y + top < 0 || y + top >= picture.height || begin == end;
    if (is_outside || begin > 0 || end < width) std::fill(row.begin(), row.end(), fill);
    if (is_outside) continue;
    std::memcpy(row.data() + begin * channels, picture.row(y + top).data() + (left + begin) * channels,
                (end - begin) * channels);
  }
  std::swap(picture, scratch);
  move_boxes_into(static_cast<float>(left), static_cast<float>(top), width, height, annotation);
}

void resize_part(int left, int top, int part_width, int part_height, int width, int height, Image& picture,
                 Annotation& annotation, Image& scratch) {
  const bool is_whole = left == 0 && top == 0 && part_width == picture.width && part_height == picture.height;
  if (!is_whole || width != picture.width || height != picture.height) {
    resize(picture, {.left = left, .top = top, .width = part_width, .height = part_height}, width, height, scratch);
    std::swap(picture, scratch);
  }
  if (!is_whole)
    move_boxes_into(static_cast<float>(left), static_cast<float>(top), part_width, part_height, annotation);
  scale_boxes(static_cast<double>(width) / part_width, static_cast<double>(height) / part_height, annotation);
}

void scale_boxes(double horizontally, double vertically, Annotation& annotation) {
  const auto scale = [](float& edge, double factor) { edge = static_cast<float>(edge * factor); };
  for (Box& box : annotation.boxes) {
    scale(box.left, horizontally);
    scale(box.right, horizontally);
    scale(box.top, vertically);
    scale(box.bottom, vertically);
  }
}

void move_boxes_into(float left, float top, int width, int height, Annotation& annotation) {
  const auto area = [](const Box& box) { return (box.right - box.left) * (box.bottom - box.top); };
  const auto is_lost = [&](Box& box) {
    const float before = area(box);
    box.left = std::max(box.left - left, 0.0F);
    box.top = std::max(box.top - top, 0.0F);
    box.right = std::min(box.right - left, static_cast<float>(width));
    box.bottom = std::min(box.bottom - top, static_cast<float>(height));
    return box.right - box.left < least_side || box.bottom - box.top < least_side || area(box) < least_part * before;
  };
  std::erase_if(annotation.boxes, is_lost);
}

}  // namespace lockstep::vision
