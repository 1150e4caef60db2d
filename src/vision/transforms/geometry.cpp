// SPDX-License-Identifier: Apache-2.0
#include "vision/transforms/geometry.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "vision/image/resize.hpp"

namespace lockstep::vision {
namespace {

constexpr float least_part = 0.1F;  // of a box's area
constexpr float least_side = 2;     // of a box, in pixels

/// Copies a window of a picture, of which parts beyond its edges get a value.
void cut_window(const Region& window, std::uint8_t fill, const Image& from, Image& to) {
  const auto [left, top, width, height] = window;
  to.resize(width, height, from.channels);
  // The columns of the window that come from the picture.
  const int begin = std::clamp(-left, 0, width);
  const int end = std::clamp(from.width - left, begin, width);
  const auto channels = static_cast<std::size_t>(from.channels);
  for (int y = 0; y < height; ++y) {
    const auto row = to.row(y);
    const bool is_outside = y + top < 0 || y + top >= from.height || begin == end;
    if (is_outside || begin > 0 || end < width) std::fill(row.begin(), row.end(), fill);
    if (is_outside) continue;
    std::memcpy(row.data() + begin * channels, from.row(y + top).data() + (left + begin) * channels,
                (end - begin) * channels);
  }
}

}  // namespace

Size letterboxed(const Size& fit, int width, int height) {
  const double scale = std::min(static_cast<double>(fit.width) / width, static_cast<double>(fit.height) / height);
  const auto side = [scale](int extent) { return std::max(static_cast<int>(std::lrint(extent * scale)), 1); };
  return {.width = side(width), .height = side(height)};
}

Size scaled(const Size& size, double factor) {
  const auto side = [factor](int extent) {
    constexpr double most = std::numeric_limits<int>::max();
    return static_cast<int>(std::clamp(std::rint(extent * factor), 1.0, most));
  };
  return {.width = side(size.width), .height = side(size.height)};
}

void cut_out(const Region& window, std::uint8_t fill, Image& picture, Annotation& annotation, Image& scratch) {
  cut_window(window, fill, picture, scratch);
  std::swap(picture, scratch);
  change_mask(annotation, [&](const Image& mask, Image& to) { cut_window(window, left_out_pixel, mask, to); });
  move_boxes_into(static_cast<float>(window.left), static_cast<float>(window.top), window.width, window.height,
                  annotation);
}

void resize_part(const Region& part, const Size& size, Image& picture, Annotation& annotation, Image& scratch) {
  const auto [width, height] = size;
  const bool is_whole = part.left == 0 && part.top == 0 && part.width == picture.width && part.height == picture.height;
  if (!is_whole || width != picture.width || height != picture.height) {
    resize(picture, part, width, height, scratch);
    std::swap(picture, scratch);
    change_mask(annotation, [&, width = width, height = height](const Image& mask, Image& to) {
      resize_nearest(mask, part, width, height, to);
    });
  }
  if (!is_whole)
    move_boxes_into(static_cast<float>(part.left), static_cast<float>(part.top), part.width, part.height, annotation);
  scale_annotation(static_cast<double>(width) / part.width, static_cast<double>(height) / part.height, annotation);
}

void scale_annotation(double horizontally, double vertically, Annotation& annotation) {
  const auto scale = [](float& edge, double factor) { edge = static_cast<float>(edge * factor); };
  for (Box& box : annotation.boxes) {
    scale(box.left, horizontally);
    scale(box.right, horizontally);
    scale(box.top, vertically);
    scale(box.bottom, vertically);
  }
  Frame& frame = annotation.frame;
  frame.scale_x *= horizontally;
  frame.left *= horizontally;
  frame.scale_y *= vertically;
  frame.top *= vertically;
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
  annotation.frame.left -= left;
  annotation.frame.top -= top;
}

std::string short_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace lockstep::vision
