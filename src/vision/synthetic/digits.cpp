// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "vision/synthetic/canvas.hpp"

namespace lockstep::vision {

namespace {

constexpr int digit_side = 28;

/// The handwriting of one image: maps the box of a glyph to pixels.
class Hand {
 public:
  explicit Hand(Random& random)
      : rotation_(rotation_from_half_tangent(random.uniform(-0.13, 0.13))),
        slant_(random.uniform(-0.35, 0.35)),
        scale_{random.uniform(6.0, 10.5), 0},
        center_{digit_side / 2.0 + random.uniform(-3, 3), digit_side / 2.0 + random.uniform(-3, 3)},
        bend_{random.uniform(-0.15, 0.15), random.uniform(-0.15, 0.15)} {
    scale_.y = random.uniform(7.0, 10.5);
  }

  [[nodiscard]] Point operator()(Point p) const {
    const Point bent{p.x + bend_.x * p.y * p.y, p.y + bend_.y * p.x * p.y};
    const Point slanted{bent.x - slant_ * bent.y, bent.y};
    return center_ + rotation_({scale_.x * slanted.x, scale_.y * slanted.y});
  }

 private:
  Rotation rotation_;
  double slant_;
  Point scale_;
  Point center_;
  Point bend_;
};

void draw_glyph(const StrokeGlyph& glyph, Random& random, DistanceField& field) {
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

Annotation draw_digit(std::int32_t label, Random& random, std::span<double> elements) {
  const auto forms = digit_glyphs(label);
  const double half_width = random.uniform(0.6, 1.5);
  const double speck_half_width = random.uniform(0.2, 0.7);
  DistanceField ink({digit_side, digit_side}, half_width + 1);
  DistanceField specks({digit_side, digit_side}, speck_half_width + 1);
  draw_glyph(forms[random.below(forms.size())], random, ink);
  draw_specks(random, specks);
  const double paper = random.uniform(0, 40);
  const double contrast = random.uniform(110, 215);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = paper + contrast * std::max(coverage(half_width - ink.distance(i)),
                                              coverage(speck_half_width - specks.distance(i)));
  add_noise(elements, random.uniform(4, 28), random);
  return {.label = label};
}

}  // namespace

SourcePair synthetic_digits(const SyntheticOptions& options) {
  return draw_sources({.name = "synthetic-digits",
                       .shape = {1, digit_side, digit_side},
                       .classes = 10,
                       .class_names = digit_names(),
                       .train = RandomStream::digits_train,
                       .val = RandomStream::digits_test},
                      options, draw_digit);
}

}  // namespace lockstep::vision
