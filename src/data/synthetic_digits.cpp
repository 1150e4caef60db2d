// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "data/canvas.hpp"
#include "data/glyphs.hpp"
#include "data/synthetic.hpp"

namespace lockstep::data {

namespace {

constexpr int digit_side = 28;

/// How this writer holds the pen today: maps the box of a glyph to pixels.
class Hand {
 public:
  explicit Hand(Random& random)
      : rotation_(rotation_from_half_tangent(random.uniform(-0.13, 0.13))),
        slant_(random.uniform(-0.35, 0.35)),
        scale_{random.uniform(6.0, 10.5), 0},
        centre_{digit_side / 2.0 + random.uniform(-3, 3), digit_side / 2.0 + random.uniform(-3, 3)},
        bend_{random.uniform(-0.15, 0.15), random.uniform(-0.15, 0.15)} {
    scale_.y = random.uniform(7.0, 10.5);
  }

  [[nodiscard]] Point operator()(Point p) const {
    const Point bent{p.x + bend_.x * p.y * p.y, p.y + bend_.y * p.x * p.y};
    const Point slanted{bent.x - slant_ * bent.y, bent.y};
    return centre_ + rotation_({scale_.x * slanted.x, scale_.y * slanted.y});
  }

 private:
  Rotation rotation_;
  double slant_;
  Point scale_;
  Point centre_;
  Point bend_;
};

/// Squared distance of each pixel's centre to the nearest ink's middle, as far as the pen reaches.
class DistanceField {
 public:
  explicit DistanceField(double reach)
      : reach_(reach), squares_(digit_side * digit_side, std::numeric_limits<double>::infinity()) {}

  void add_segment(Point a, Point b) {
    const Point direction = b - a;
    const double length_squared = std::max(dot(direction, direction), 1e-12);
    const auto first = [this](double low) { return std::clamp(static_cast<int>(low - reach_), 0, digit_side); };
    const auto last = [this](double high) { return std::clamp(static_cast<int>(high + reach_) + 1, 0, digit_side); };
    for (int row = first(std::min(a.y, b.y)); row < last(std::max(a.y, b.y)); ++row) {
      for (int column = first(std::min(a.x, b.x)); column < last(std::max(a.x, b.x)); ++column) {
        const Point offset = Point{column + 0.5, row + 0.5} - a;
        const double along = std::clamp(dot(offset, direction) / length_squared, 0.0, 1.0);
        const Point gap = offset - along * direction;
        double& square = squares_[static_cast<std::size_t>(row) * digit_side + static_cast<std::size_t>(column)];
        square = std::min(square, dot(gap, gap));
      }
    }
  }

  [[nodiscard]] double distance(std::size_t pixel) const { return std::sqrt(squares_[pixel]); }

 private:
  double reach_;
  std::vector<double> squares_;
};

/// A point between b and c on the curve that passes through a, b, c, d.
/// @source Catmull, Rom: A class of local interpolating splines, 1974
Point catmull_rom(Point a, Point b, Point c, Point d, double t) {
  const Point linear = c - a;
  const Point quadratic = 2 * a - 5 * b + 4 * c - d;
  const Point cubic = 3 * b - 3 * c + d - a;
  return b + (t / 2) * (linear + t * (quadratic + t * cubic));
}

void draw_stroke(const Stroke& stroke, DistanceField& field) {
  constexpr int pieces = 6;
  for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
    const Point before = stroke[i == 0 ? 0 : i - 1];
    const Point after = stroke[std::min(i + 2, stroke.size() - 1)];
    Point from = stroke[i];
    for (int piece = 1; piece <= pieces; ++piece) {
      const Point to = catmull_rom(before, stroke[i], stroke[i + 1], after, static_cast<double>(piece) / pieces);
      field.add_segment(from, to);
      from = to;
    }
  }
}

void draw_glyph(const Glyph& glyph, Random& random, DistanceField& field) {
  const Hand hand(random);
  for (const Stroke& stroke : glyph) {
    Stroke on_paper;
    for (const Point p : stroke)
      on_paper.push_back(hand(p + Point{random.uniform(-0.07, 0.07), random.uniform(-0.07, 0.07)}));
    draw_stroke(on_paper, field);
  }
}

/// Dots and short scratches that belong to no digit.
void draw_specks(Random& random, DistanceField& field) {
  const std::uint64_t specks = random.below(4);
  for (std::uint64_t i = 0; i < specks; ++i) {
    const Point at{random.uniform(0, digit_side), random.uniform(0, digit_side)};
    field.add_segment(at, at + Point{random.uniform(-2, 2), random.uniform(-2, 2)});
  }
}

void draw_digit(std::int32_t label, Random& random, std::span<double> elements) {
  const auto forms = glyphs(label);
  const double half_width = random.uniform(0.6, 1.5);
  const double speck_half_width = random.uniform(0.2, 0.7);
  DistanceField ink(half_width + 1);
  DistanceField specks(speck_half_width + 1);
  draw_glyph(forms[random.below(forms.size())], random, ink);
  draw_specks(random, specks);
  const double paper = random.uniform(0, 40);
  const double contrast = random.uniform(110, 215);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = paper + contrast * std::max(coverage(half_width - ink.distance(i)),
                                              coverage(speck_half_width - specks.distance(i)));
  add_noise(elements, random.uniform(4, 28), random);
}

}  // namespace

ImagesPair synthetic_digits(const SyntheticOptions& options) {
  const Images form{.name = "synthetic-digits", .shape = {1, digit_side, digit_side}, .classes = 10};
  return {draw_images(form, options.train, options.seed, Stream::digits_train, draw_digit),
          draw_images(form, options.test, options.seed, Stream::digits_test, draw_digit)};
}

}  // namespace lockstep::data
