// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "vision/synthetic/canvas.hpp"

namespace lockstep::vision {

namespace {

enum Class : std::int32_t {
  stripes,
  checkers,
  dots,
  rings,
  warm_disc,
  cool_disc,
  triangle,
  square,
  cross,
  gradient,
  pattern_count
};

constexpr std::array<const char*, pattern_count> pattern_names = {
    "stripes", "checkers", "dots", "rings", "warm disc", "cool disc", "triangle", "square", "cross", "gradient"};

constexpr int tenths = 10;

/// What the images of a class have in common.
struct Look {
  std::int32_t pattern = 0;
  int tenth_of_turns = -1;  ///< the part of all rotations; −1: any
  int tenth_of_sizes = -1;
};

double within(double low, double high, int tenth, double share) {
  return low + (high - low) * (tenth < 0 ? share : (tenth + share) / tenths);
}

/// Returns the signed distance, in periods, to the nearest edge of a pattern that is on for half of each period.
double wave(double x) { return 0.25 - std::abs(x - std::floor(x) - 0.5); }

double inside_dots(Point p, double period) {
  const Point cell{p.x / period - std::floor(p.x / period) - 0.5, p.y / period - std::floor(p.y / period) - 0.5};
  return period * (0.27 - std::sqrt(dot(cell, cell)));
}

/// Returns the fraction of foreground color of a pixel at `p` (in pixels from the center of the pattern, rotated).
double pattern(std::int32_t label, Point p, double size, int side) {
  const double period = 0.7 * size;
  const double radius = std::sqrt(dot(p, p));
  switch (label) {
    case stripes: return coverage(period * wave(p.x / period));
    case checkers: {
      const double x = period * wave(p.x / period);
      const double y = period * wave(p.y / period);
      const double nearest_edge = std::min(std::abs(x), std::abs(y));
      return coverage((x > 0) == (y > 0) ? nearest_edge : -nearest_edge);
    }
    case dots: return coverage(inside_dots(p, period));
    case rings: return coverage(period * wave(radius / period));
    case triangle: return coverage(inside_triangle(p, 0.7 * size));
    case square: return coverage(inside_square(p, 0.9 * size));
    case cross: return coverage(inside_cross(p, 1.2 * size));
    case gradient: return std::clamp(0.5 + p.x / side, 0.0, 1.0);
    default: return coverage(size - radius);  // the two discs
  }
}

/// Returns a random color. Warm colors have more red than blue, cool ones more blue than red; brightness is no clue.
Rgb disc_color(std::int32_t label, Random& random) {
  const double more = random.uniform(130, 255);
  const double less = more - random.uniform(70, 130);
  const double green = random.uniform(0, 255);
  return label == warm_disc ? Rgb{more, green, less} : Rgb{less, green, more};
}

/// Draws a square image. Lengths are those of an image of 32×32 pixels, enlarged.
void draw_pattern(const Look& look, int side, Random& random, std::span<double> elements) {
  const std::int32_t label = look.pattern;
  const double scale = side / 32.0;
  const bool disc = label == warm_disc || label == cool_disc;
  const Rgb foreground = disc ? disc_color(label, random) : random_color(random);
  const Rgb background = color_unlike(foreground, random);
  const Rotation rotation = rotation_from_half_tangent(within(-1, 1, look.tenth_of_turns, random.uniform()));
  const Point center{side / 2.0 + scale * random.uniform(-6, 6), side / 2.0 + scale * random.uniform(-6, 6)};
  const double size = scale * within(7, 12, look.tenth_of_sizes, random.uniform());
  // Brightness per pixel across the image.
  const Point light{random.uniform(-1.5, 1.5) / scale, random.uniform(-1.5, 1.5) / scale};
  const auto length = static_cast<std::size_t>(side);
  const std::size_t pixels = length * length;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::size_t row = i / length;
    const Point p = Point{static_cast<double>(i % length) + 0.5, static_cast<double>(row) + 0.5} - center;
    const double share = pattern(label, rotation(p), size, side);
    for (std::size_t channel = 0; channel < 3; ++channel)
      elements[channel * pixels + i] = share * foreground[channel] + (1 - share) * background[channel] + dot(light, p);
  }
  add_noise(elements, random.uniform(4, 22), random);
}

}  // namespace

SourcePair synthetic_cifar(const SyntheticOptions& options) {
  constexpr int side = 32;
  return draw_sources({.name = "synthetic-cifar",
                       .shape = {3, side, side},
                       .classes = pattern_count,
                       .class_names = {pattern_names.begin(), pattern_names.end()},
                       .train = RandomStream::cifar_train,
                       .val = RandomStream::cifar_test},
                      options, [](std::int32_t label, Random& random, std::span<double> elements) {
                        draw_pattern({.pattern = label}, side, random, elements);
                        return Annotation{.label = label};
                      });
}

SourcePair synthetic_imagenet(const SyntheticOptions& options) {
  constexpr int side = 224;
  constexpr std::int32_t classes = pattern_count * tenths * tenths;
  std::vector<std::string> names;
  for (std::int32_t label = 0; label < classes; ++label)
    names.push_back(pattern_names.at(static_cast<std::size_t>(label % pattern_count)) +
                    ("-" + std::to_string(label / pattern_count)));
  return draw_sources({.name = "synthetic-imagenet",
                       .shape = {3, side, side},
                       .classes = classes,
                       .class_names = std::move(names),
                       .train = RandomStream::imagenet_train,
                       .val = RandomStream::imagenet_test},
                      options, [](std::int32_t label, Random& random, std::span<double> elements) {
                        const std::int32_t rest = label / pattern_count;
                        draw_pattern({label % pattern_count, rest % tenths, rest / tenths}, side, random, elements);
                        return Annotation{.label = label};
                      });
}

}  // namespace lockstep::vision
