// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "data/sample_random.hpp"
#include "vision/image/resize.hpp"
#include "vision/transforms/geometry.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {
namespace {

constexpr std::size_t quarters = 4;

/// What is drawn for a sample. Everything is drawn for every sample.
struct Drawn {
  bool is_mosaic = false;
  int x = 0;  ///< where the quarters meet
  int y = 0;
  std::size_t own = 0;                        ///< the quarter of the sample itself
  std::array<std::int64_t, quarters> others;  ///< the samples of the other ones, by quarter
};

Drawn draw_mosaic(const data::SampleKey& key, const Size& size, double probability, std::int64_t samples) {
  data::Random random = data::random_of(key, data::RandomStream::mosaic);
  Drawn drawn;
  drawn.is_mosaic = random.chance(probability);
  const auto middle = [&random](int extent) { return static_cast<int>(random.uniform(0.5 * extent, 1.5 * extent)); };
  drawn.x = middle(size.width);
  drawn.y = middle(size.height);
  drawn.own = static_cast<std::size_t>(random.below(quarters));
  for (std::int64_t& other : drawn.others)
    other = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(samples)));
  return drawn;
}

Region intersection(const Region& a, const Region& b) {
  const int left = std::max(a.left, b.left);
  const int top = std::max(a.top, b.top);
  return {.left = left,
          .top = top,
          .width = std::max(std::min(a.left + a.width, b.left + b.width) - left, 0),
          .height = std::max(std::min(a.top + a.height, b.top + b.height) - top, 0)};
}

bool is_empty(const Region& region) { return region.width == 0 || region.height == 0; }

void fill_region(const Region& region, std::uint8_t value, Image& picture) {
  const auto channels = static_cast<std::size_t>(picture.channels);
  for (int y = region.top; y < region.top + region.height; ++y)
    std::ranges::fill(picture.row(y).subspan(region.left * channels, region.width * channels), value);
}

/// A canvas with its quarters.
struct Canvas {
  Size size;  ///< a quarter of the canvas
  int x = 0;  ///< where the quarters meet
  int y = 0;
  Region seen;  ///< the part that has to be filled

  [[nodiscard]] Region whole() const { return {.width = 2 * size.width, .height = 2 * size.height}; }
  [[nodiscard]] Region quarter(std::size_t number) const {
    const bool is_right = number % 2 == 1;
    const bool is_lower = number / 2 == 1;
    return {.left = is_right ? x : 0,
            .top = is_lower ? y : 0,
            .width = is_right ? 2 * size.width - x : x,
            .height = is_lower ? 2 * size.height - y : y};
  }
  /// Where a picture of this size lies, with a corner at the point where the quarters meet.
  [[nodiscard]] Region place(std::size_t number, const Size& picture) const {
    return {.left = number % 2 == 1 ? x : x - picture.width,
            .top = number / 2 == 1 ? y : y - picture.height,
            .width = picture.width,
            .height = picture.height};
  }
};

/// Moves the boxes of a picture with it onto the canvas, from the `first`th one on. What lies beyond the part of the
/// picture that is on the canvas is cut off.
void place_boxes(const Image& picture, const Region& place, const Region& on_canvas, std::size_t first,
                 std::vector<Box>& boxes) {
  const double across = static_cast<double>(place.width) / picture.width;
  const double down = static_cast<double>(place.height) / picture.height;
  const auto moved = [](float edge, double scale, int offset, int begin, int extent) {
    return std::clamp(static_cast<float>(edge * scale + offset), static_cast<float>(begin),
                      static_cast<float>(begin + extent));
  };
  const auto is_lost = [&](Box& box) {
    box.left = moved(box.left, across, place.left, on_canvas.left, on_canvas.width);
    box.right = moved(box.right, across, place.left, on_canvas.left, on_canvas.width);
    box.top = moved(box.top, down, place.top, on_canvas.top, on_canvas.height);
    box.bottom = moved(box.bottom, down, place.top, on_canvas.top, on_canvas.height);
    return box.right <= box.left || box.bottom <= box.top;
  };
  const auto begin = boxes.begin() + static_cast<std::ptrdiff_t>(first);
  boxes.erase(std::remove_if(begin, boxes.end(), is_lost), boxes.end());
}

/// Draws a picture into a quarter of the canvas. Its boxes are the last ones, from the `first`th on.
void place_picture(const Image& picture, const Canvas& canvas, std::size_t quarter, std::size_t first,
                   std::vector<Box>& boxes, Image& pixels) {
  const Size size = letterboxed(canvas.size, picture.width, picture.height);
  const Region place = canvas.place(quarter, size);
  const Region on_canvas = intersection(place, canvas.whole());
  place_boxes(picture, place, on_canvas, first, boxes);
  const Region shown = intersection(on_canvas, canvas.seen);
  if (is_empty(shown)) return;
  const Region window{
      .left = shown.left - place.left, .top = shown.top - place.top, .width = shown.width, .height = shown.height};
  resize_into(picture, size.width, size.height, window, pixels, shown.left, shown.top);
}

void compose_mosaic(const Drawn& drawn, const Canvas& canvas, Samples& samples, Image& picture, Annotation& annotation,
                    Image& scratch) {
  scratch.resize(canvas.whole().width, canvas.whole().height, picture.channels);
  fill_region(canvas.seen, letterbox_gray, scratch);
  place_picture(picture, canvas, drawn.own, 0, annotation.boxes, scratch);
  for (std::size_t quarter = 0; quarter < quarters; ++quarter) {
    // The boxes of a picture that is not seen are not seen, either.
    if (quarter == drawn.own || is_empty(intersection(canvas.quarter(quarter), canvas.seen))) continue;
    const LoadedSample other = samples.load(drawn.others[quarter]);
    const std::size_t first = annotation.boxes.size();
    annotation.boxes.insert(annotation.boxes.end(), other.annotation->boxes.begin(), other.annotation->boxes.end());
    place_picture(*other.picture, canvas, quarter, first, annotation.boxes, scratch);
  }
  std::swap(picture, scratch);
  annotation.mask.pixels.clear();
  annotation.text.clear();
  annotation.frame = {};
}

}  // namespace

Transform mosaic(Size size, double probability) {
  const Transform single = letterbox(size);
  std::string text = "mosaic";
  if (probability < 1) text += ":" + short_text(probability);
  return {.text = text,
          .needed_side = single.needed_side,
          .compose = [size, probability, single](const data::SampleKey& key, Samples& samples, const Transform* next,
                                                 Image& picture, Annotation& annotation, Image& scratch) {
            const Drawn drawn = draw_mosaic(key, size, probability, samples.size());
            if (!drawn.is_mosaic) return single.apply(key, picture, annotation, scratch);
            Canvas canvas{.size = size, .x = drawn.x, .y = drawn.y};
            canvas.seen = canvas.whole();
            if (next != nullptr && next->seen)
              canvas.seen = next->seen(key, canvas.whole().width, canvas.whole().height);
            compose_mosaic(drawn, canvas, samples, picture, annotation, scratch);
          }};
}

}  // namespace lockstep::vision
