// SPDX-License-Identifier: Apache-2.0
#include "data/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

double contrast(const Color& a, const Color& b) {
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

}  // namespace

Rotation rotation_from_half_tangent(double tangent) {
  const double scale = 1 + tangent * tangent;
  return {(1 - tangent * tangent) / scale, 2 * tangent / scale};
}

double coverage(double distance) { return std::clamp(distance + 0.5, 0.0, 1.0); }

std::uint8_t to_byte(double value) { return static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0))); }

void add_noise(std::span<double> elements, double amplitude, Random& random) {
  // Four bytes uniform on 0 … 255 have the mean 510 and the variance 4 · (256² − 1) / 12.
  constexpr double mean = 510;
  constexpr double deviation = 147.80054;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    bits = i % 2 == 0 ? random.next() : bits >> 32;
    const std::uint64_t sum = (bits & 0xff) + (bits >> 8 & 0xff) + (bits >> 16 & 0xff) + (bits >> 24 & 0xff);
    elements[i] += amplitude * (static_cast<double>(sum) - mean) / deviation;
  }
}

Images draw_images(const Images& form, Count count, std::uint64_t seed, Stream stream, const Draw& draw) {
  if (count.value < 1)
    throw Error(ErrorCode::invalid_argument,
                "the data set \"" + form.name + "\" cannot be drawn with " + std::to_string(count.value) + " images");
  Images result = form;
  const auto length = static_cast<std::size_t>(form.shape.elements());
  result.images.reserve(static_cast<std::size_t>(count.value) * length);
  std::vector<double> elements(length);
  for (std::int64_t i = 0; i < count.value; ++i) {
    Random random(seed, stream, static_cast<std::uint64_t>(i));
    const auto label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(form.classes)));
    draw(label, random, elements);
    result.labels.push_back(label);
    std::transform(elements.begin(), elements.end(), std::back_inserter(result.images), to_byte);
  }
  return result;
}

Color random_color(Random& random) { return {random.uniform(0, 255), random.uniform(0, 255), random.uniform(0, 255)}; }

Color color_unlike(const Color& other, Random& random) {
  constexpr double least_contrast = 150;
  Color color = random_color(random);
  while (contrast(color, other) < least_contrast) color = random_color(random);
  return color;
}

double inside_triangle(Point p, double radius) {
  constexpr double half_root_3 = 0.8660254037844386;
  return std::min({radius - p.y, radius + 0.5 * p.y - half_root_3 * p.x, radius + 0.5 * p.y + half_root_3 * p.x});
}

double inside_square(Point p, double radius) { return radius - std::max(std::abs(p.x), std::abs(p.y)); }

double inside_cross(Point p, double radius) {
  const double x = std::abs(p.x);
  const double y = std::abs(p.y);
  return std::min(radius - std::max(x, y), radius / 3 - std::min(x, y));
}

}  // namespace lockstep::data
