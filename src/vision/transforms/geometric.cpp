// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "data/sample_random.hpp"
#include "lockstep/base/error.hpp"
#include "vision/codec/codec.hpp"
#include "vision/image/flip.hpp"
#include "vision/image/resize.hpp"
#include "vision/transforms/geometry.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {
namespace {

std::string size_text(const Size& size) {
  if (size.width == size.height) return std::to_string(size.width);
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

int round_to_even(double value) { return static_cast<int>(std::lrint(value)); }  // as Python's round()

/// Returns eˣ for |x| < 0.3 by its series, in operations that round alike on every machine; std::exp does not.
double exponential(double x) {
  double sum = 1;
  for (int n = 14; n > 0; --n) sum = 1 + x / n * sum;
  return sum;
}

/// The size of a picture that is resized so that its shorter side has `side` pixels, and the other one its ratio.
/// @throws Error{corrupt} for a picture so long and thin that the result would be larger than a file may be
Size with_shorter_side(int side, const Image& picture) {
  const std::int64_t shorter = std::min(picture.width, picture.height);
  const std::int64_t longer = std::max(picture.width, picture.height);
  const std::int64_t scaled = shorter == longer ? side : side * longer / shorter;
  if (scaled * side > DecodeLimits{}.pixels)
    throw Error(ErrorCode::corrupt, "a picture of " + std::to_string(picture.width) + "×" +
                                        std::to_string(picture.height) + " pixels is too long and thin to be resized");
  const int other = static_cast<int>(scaled);
  return picture.width <= picture.height ? Size{side, other} : Size{other, side};
}

/// @throws Error{corrupt} for a picture that would become larger than a file may be
Size with_scale(double factor, const Image& picture) {
  const Size size = scaled({.width = picture.width, .height = picture.height}, factor);
  if (std::int64_t{size.width} * size.height > DecodeLimits{}.pixels)
    throw Error(ErrorCode::corrupt, "a picture of " + std::to_string(picture.width) + "×" +
                                        std::to_string(picture.height) + " pixels is too large to be resized by " +
                                        short_text(factor));
  return size;
}

/// The middle of a picture, as large as a ratio between 3/4 and 4/3 allows.
Region middle_of(const Image& picture) {
  constexpr double least_ratio = 3.0 / 4;
  constexpr double most_ratio = 4.0 / 3;
  const double ratio = static_cast<double>(picture.width) / picture.height;
  Region part{.width = picture.width, .height = picture.height};
  if (ratio < least_ratio) part.height = round_to_even(picture.width / least_ratio);
  if (ratio > most_ratio) part.width = round_to_even(picture.height * most_ratio);
  part.left = (picture.width - part.width) / 2;
  part.top = (picture.height - part.height) / 2;
  return part;
}

Region draw_part(const data::SampleKey& key, const Image& picture) {
  constexpr double log_of_most_ratio = 0.28768207245178090;  // ln(4/3)
  data::Random random = data::random_of(key, data::RandomStream::resized_crop);
  const double area = static_cast<double>(picture.width) * picture.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part_area = area * random.uniform(0.08, 1);
    const double ratio = exponential(random.uniform(-log_of_most_ratio, log_of_most_ratio));
    const int width = round_to_even(std::sqrt(part_area * ratio));
    const int height = round_to_even(std::sqrt(part_area / ratio));
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    const auto draw = [&random](int choices) {
      return static_cast<int>(random.below(static_cast<std::uint64_t>(choices)));
    };
    const int top = draw(picture.height - height + 1);
    return {.left = draw(picture.width - width + 1), .top = top, .width = width, .height = height};
  }
  return middle_of(picture);
}

Region whole(const Image& picture) { return {.width = picture.width, .height = picture.height}; }

}  // namespace

Transform pad_and_crop(int border) {
  return {.text = "crop:" + std::to_string(border),
          .apply =
              [border](const data::SampleKey& key, Image& picture, Annotation& annotation, Image& scratch) {
                const auto [down, right, is_flipped] = data::draw_crop_and_flip(key, border);
                cut_out({static_cast<int>(right), static_cast<int>(down), picture.width, picture.height}, 0, picture,
                        annotation, scratch);
              },
          .needed_side = 0};
}

Transform random_flip() {
  return {.text = "flip",
          .apply = [](const data::SampleKey& key, Image& picture, Annotation& annotation, Image& /*scratch*/) {
            if (!data::draw_crop_and_flip(key, 4).is_flipped) return;
            flip(picture);
            if (!annotation.mask.pixels.empty()) flip(annotation.mask);
            const auto width = static_cast<float>(picture.width);
            for (Box& box : annotation.boxes) {
              const float left = box.left;
              box.left = width - box.right;
              box.right = width - left;
            }
            annotation.frame.scale_x = -annotation.frame.scale_x;
            annotation.frame.left = picture.width - annotation.frame.left;
          }};
}

Transform random_resized_crop(Size size) {
  return {.text = "random-resized-crop:" + size_text(size),
          .apply = [size](const data::SampleKey& key, Image& picture, Annotation& annotation,
                          Image& scratch) { resize_part(draw_part(key, picture), size, picture, annotation, scratch); },
          // A part of a quarter of the area still has a pixel for each of the network's.
          .needed_side = 2 * std::max(size.width, size.height),
          .sets_size = true};
}

Transform random_scale(double least, double most) {
  return {.text = "scale:" + short_text(least) + "," + short_text(most),
          .apply =
              [least, most](const data::SampleKey& key, Image& picture, Annotation& annotation, Image& scratch) {
                const double factor = data::random_of(key, data::RandomStream::scale).uniform(least, most);
                resize_part(whole(picture), with_scale(factor, picture), picture, annotation, scratch);
              },
          .needed_side = 0,
          .factor = least == most ? least : 0};
}

Transform random_crop(Size size) {
  return {.text = "random-crop:" + size_text(size),
          .apply =
              [size](const data::SampleKey& key, Image& picture, Annotation& annotation, Image& scratch) {
                constexpr std::uint8_t gray = 127;
                data::Random random = data::random_of(key, data::RandomStream::random_crop);
                const auto draw = [&random](int extent, int wanted) {
                  const auto choices = static_cast<std::uint64_t>(std::max(extent - wanted, 0) + 1);
                  return static_cast<int>(random.below(choices));
                };
                const int left = draw(picture.width, size.width);
                const int top = draw(picture.height, size.height);
                cut_out({left, top, size.width, size.height}, gray, picture, annotation, scratch);
              },
          .needed_side = 0,
          .sets_size = true};
}

Transform resize_shorter_side(int side) {
  return {.text = "resize:" + std::to_string(side),
          .apply =
              [side](const data::SampleKey& /*key*/, Image& picture, Annotation& annotation, Image& scratch) {
                resize_part(whole(picture), with_shorter_side(side, picture), picture, annotation, scratch);
              },
          .needed_side = side};
}

Transform resize_to(Size size) {
  return {.text = "resize:" + std::to_string(size.height) + "x" + std::to_string(size.width),
          .apply = [size](const data::SampleKey& /*key*/, Image& picture, Annotation& annotation,
                          Image& scratch) { resize_part(whole(picture), size, picture, annotation, scratch); },
          .needed_side = std::max(size.width, size.height),
          .sets_size = true};
}

Transform letterbox(Size size) { return letterbox(size, size); }

Transform letterbox(Size size, Size fit) {
  return {.text = "letterbox:" + size_text(size),
          .apply =
              [size, fit](const data::SampleKey& /*key*/, Image& picture, Annotation& annotation, Image& scratch) {
                const Size fitting = letterboxed(fit, picture.width, picture.height);
                resize_part(whole(picture), fitting, picture, annotation, scratch);
                cut_out({-((size.width - fitting.width) / 2), -((size.height - fitting.height) / 2), size.width,
                         size.height},
                        letterbox_gray, picture, annotation, scratch);
              },
          .needed_side = std::max(fit.width, fit.height),
          .sets_size = true};
}

Transform center_crop(Size size) {
  return {.text = "center-crop:" + size_text(size),
          .apply =
              [size](const data::SampleKey& /*key*/, Image& picture, Annotation& annotation, Image& scratch) {
                // torchvision pads a small picture by half of what it lacks, rounded down, and rounds other halves to
                // even.
                const auto begin = [](int extent, int wanted) {
                  return extent < wanted ? -((wanted - extent) / 2) : round_to_even((extent - wanted) / 2.0);
                };
                cut_out({begin(picture.width, size.width), begin(picture.height, size.height), size.width, size.height},
                        0, picture, annotation, scratch);
              },
          .needed_side = 0,
          .sets_size = true};
}

}  // namespace lockstep::vision
