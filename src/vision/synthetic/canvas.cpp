// SPDX-License-Identifier: Apache-2.0
#include "vision/synthetic/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lockstep/base/error.hpp"
#include "vision/source/memory_source.hpp"

namespace lockstep::vision {
namespace {

double contrast(const Rgb& a, const Rgb& b) {
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

using Forms = std::vector<StrokeGlyph>;

Forms zero() {
  return {{{{0, -1}, {-.45, -.65}, {-.55, 0}, {-.45, .65}, {0, 1}, {.45, .65}, {.55, 0}, {.45, -.65}, {0, -1}}},
          {{{.2, -.95}, {-.4, -.6}, {-.5, .2}, {-.1, 1}, {.4, .6}, {.5, -.3}, {.1, -1}, {-.1, -.8}}}};
}

Forms one() {
  return {{{{0, -1}, {0, 1}}},
          {{{-.35, -.55}, {0, -1}}, {{0, -1}, {0, 1}}},
          {{{-.35, -.6}, {.05, -1}}, {{.05, -1}, {.05, 1}}, {{-.4, 1}, {.45, 1}}}};
}

Forms two() {
  return {
      {{{-.5, -.6}, {-.3, -.92}, {.05, -1}, {.42, -.82}, {.48, -.4}, {.15, .15}, {-.55, 1}}, {{-.55, 1}, {.6, 1}}},
      {{{-.45, -.7}, {.05, -1}, {.45, -.6}, {.25, .1}, {-.2, .75}, {-.5, .85}, {-.35, .55}, {.05, .8}, {.55, .95}}}};
}

Forms three() {
  return {{{{-.5, -.75}, {-.05, -1}, {.4, -.8}, {.38, -.35}, {-.1, -.05}},
           {{-.1, -.05}, {.35, .1}, {.52, .5}, {.25, .9}, {-.15, 1}, {-.52, .75}}},
          {{{-.5, -1}, {.5, -1}},
           {{.5, -1}, {-.1, -.15}},
           {{-.1, -.15}, {.35, 0}, {.52, .45}, {.25, .9}, {-.15, 1}, {-.52, .8}}}};
}

Forms four() {
  return {{{{.25, -1}, {-.6, .35}}, {{-.6, .35}, {.6, .35}}, {{.25, -1}, {.25, 1}}},
          {{{-.4, -1}, {-.5, -.4}, {-.45, .1}}, {{-.45, .1}, {.55, .05}}, {{.35, -.9}, {.3, 0}, {.25, 1}}}};
}

Forms five() {
  return {{{{.5, -1}, {-.4, -1}},
           {{-.4, -1}, {-.45, -.15}},
           {{-.45, -.15}, {0, -.3}, {.42, -.05}, {.48, .4}, {.25, .88}, {-.15, 1}, {-.5, .8}}},
          {{{.5, -1}, {-.25, -.95}}, {{-.25, -.95}, {-.4, -.2}, {.1, -.15}, {.45, .3}, {.2, .85}, {-.45, 1}}}};
}

Forms six() {
  return {{{{.4, -.95},
            {0, -.7},
            {-.35, -.25},
            {-.5, .35},
            {-.3, .85},
            {.05, 1},
            {.4, .8},
            {.48, .4},
            {.25, .05},
            {-.1, 0},
            {-.45, .35}}},
          {{{.1, -1}, {-.3, -.4}, {-.45, .3}, {-.2, .9}, {.25, .95}, {.45, .55}, {.1, .2}, {-.4, .5}}}};
}

Forms seven() {
  return {{{{-.5, -1}, {.55, -1}}, {{.55, -1}, {.2, -.3}, {-.1, .4}, {-.2, 1}}},
          {{{-.5, -1}, {.55, -1}}, {{.55, -1}, {.15, -.1}, {-.15, 1}}, {{-.25, 0}, {.45, 0}}},
          {{{-.5, -.65}, {-.5, -.95}}, {{-.5, -.95}, {.55, -1}}, {{.55, -1}, {-.15, 1}}}};
}

Forms eight() {
  return {{{{0, -.05},
            {-.4, -.35},
            {-.38, -.78},
            {0, -1},
            {.38, -.78},
            {.4, -.35},
            {0, -.05},
            {-.45, .35},
            {-.42, .8},
            {0, 1},
            {.42, .8},
            {.45, .35},
            {0, -.05}}},
          {{{.42, -.75},
            {0, -1},
            {-.4, -.7},
            {-.2, -.25},
            {.25, .15},
            {.42, .6},
            {0, 1},
            {-.42, .65},
            {-.2, .15},
            {.25, -.3},
            {.42, -.75}}}};
}

Forms nine() {
  return {{{{.42, -.6}, {.2, -.93}, {-.12, -1}, {-.43, -.75}, {-.43, -.35}, {-.12, -.1}, {.2, -.22}, {.42, -.6}},
           {{.42, -.6}, {.4, 0}, {.32, .6}, {.2, 1}}},
          {{{.42, -.6},
            {.1, -1},
            {-.35, -.85},
            {-.45, -.4},
            {-.1, -.1},
            {.3, -.3},
            {.42, -.6},
            {.42, .2},
            {.15, .85},
            {-.2, 1},
            {-.48, .8}}}};
}

/// Returns a point between b and c on the curve that passes through a, b, c and d.
/// @source Catmull, Rom: A class of local interpolating splines, 1974
Point catmull_rom(Point a, Point b, Point c, Point d, double t) {
  const Point linear = c - a;
  const Point quadratic = 2 * a - 5 * b + 4 * c - d;
  const Point cubic = 3 * b - 3 * c + d - a;
  return b + (t / 2) * (linear + t * (quadratic + t * cubic));
}

std::shared_ptr<const Source> draw_part(const DrawnForm& form, Count count, std::uint64_t seed, RandomStream stream,
                                        const Draw& draw) {
  if (count.value < 1)
    throw Error(ErrorCode::invalid_argument,
                "the data set \"" + form.name + "\" cannot be drawn with " + std::to_string(count.value) + " images");
  data::Images images{.name = form.name, .shape = form.shape, .classes = form.classes};
  const auto length = static_cast<std::size_t>(form.shape.elements());
  images.images.resize(static_cast<std::size_t>(count.value) * length);
  std::vector<Annotation> annotations;
  std::vector<double> elements(length);
  auto image = images.images.begin();
  for (std::int64_t i = 0; i < count.value; ++i) {
    Random random(seed, stream, static_cast<std::uint64_t>(i));
    const auto label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(form.classes)));
    annotations.push_back(draw(label, random, elements));
    images.labels.push_back(label);
    image = std::transform(elements.begin(), elements.end(), image, to_byte);
  }
  return std::make_shared<MemorySource>(std::move(images), form.class_names, std::move(annotations),
                                        std::vector<PixelFile>());
}

}  // namespace

Rotation rotation_from_half_tangent(double tangent) {
  const double scale = 1 + tangent * tangent;
  return {(1 - tangent * tangent) / scale, 2 * tangent / scale};
}

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

SourcePair draw_sources(const DrawnForm& form, const SyntheticOptions& options, const Draw& draw) {
  return {draw_part(form, options.train, options.seed, form.train, draw),
          draw_part(form, options.test, options.seed, form.val, draw)};
}

Rgb random_color(Random& random) { return {random.uniform(0, 255), random.uniform(0, 255), random.uniform(0, 255)}; }

Rgb color_unlike(const Rgb& other, Random& random) {
  constexpr double least_contrast = 150;
  Rgb color = random_color(random);
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

std::span<const StrokeGlyph> digit_glyphs(int digit) {
  static const std::array<Forms, 10> all = {zero(), one(), two(),   three(), four(),
                                            five(), six(), seven(), eight(), nine()};
  return all.at(static_cast<std::size_t>(digit));
}

std::vector<std::string> digit_names() { return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; }

DistanceField::DistanceField(Sheet sheet, double reach)
    : sheet_(sheet),
      reach_(reach),
      squares_(static_cast<std::size_t>(sheet.width) * static_cast<std::size_t>(sheet.height),
               std::numeric_limits<double>::infinity()) {}

void DistanceField::add_segment(Point a, Point b) {
  const Point direction = b - a;
  const double length_squared = std::max(dot(direction, direction), 1e-12);
  const auto first = [this](double low, int end) { return std::clamp(static_cast<int>(low - reach_), 0, end); };
  const auto last = [this](double high, int end) { return std::clamp(static_cast<int>(high + reach_) + 1, 0, end); };
  // Not in the loops: for all that the compiler knows, a square may be the reach.
  const int begin = first(std::min(a.x, b.x), sheet_.width);
  const int end = last(std::max(a.x, b.x), sheet_.width);
  const int end_row = last(std::max(a.y, b.y), sheet_.height);
  for (int row = first(std::min(a.y, b.y), sheet_.height); row < end_row; ++row) {
    double* const squares = squares_.data() + std::int64_t{row} * sheet_.width;
    for (int column = begin; column < end; ++column) {
      const Point offset = Point{column + 0.5, row + 0.5} - a;
      const double along = std::clamp(dot(offset, direction) / length_squared, 0.0, 1.0);
      const Point gap = offset - along * direction;
      squares[column] = std::min(squares[column], dot(gap, gap));
    }
  }
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

}  // namespace lockstep::vision
