// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/random.hpp"
#include "lockstep/data/images.hpp"
#include "vision/synthetic/synthetic.hpp"

/// Functions, colors and shapes that the drawn sources share. They use only + − × ÷ and square roots, which IEEE 754
/// rounds exactly, so that every machine draws the same bytes.
namespace lockstep::vision {

using data::Random;
using data::RandomStream;

struct Point {
  double x = 0;
  double y = 0;
};

inline Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
inline Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
inline Point operator*(double s, Point a) { return {s * a.x, s * a.y}; }
inline double dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }

/// A rotation, given by cosine and sine.
struct Rotation {
  double cosine = 1;
  double sine = 0;

  [[nodiscard]] Point operator()(Point p) const { return {cosine * p.x - sine * p.y, sine * p.x + cosine * p.y}; }
};

/// Returns the rotation whose half angle has this tangent. Tangents from −1 to 1 cover ±90 degrees.
Rotation rotation_from_half_tangent(double tangent);

/// Returns the coverage, 0 to 1, of a pixel whose center lies `distance` pixels inside (positive) or outside an edge.
/// The edge is softened over one pixel.
inline double coverage(double distance) { return std::clamp(distance + 0.5, 0.0, 1.0); }

/// Returns the nearest byte, the upper one from halfway on; values below 0 or above 255 are clamped.
inline std::uint8_t to_byte(double value) {
  const double clamped = std::clamp(value, 0.0, 255.0);
  const auto whole = static_cast<int>(clamped);
  return static_cast<std::uint8_t>(whole + (clamped - whole >= 0.5 ? 1 : 0));
}

/// Adds noise of standard deviation `amplitude` to each element, nearly normal (the sum of four uniform bytes).
void add_noise(std::span<double> elements, double amplitude, Random& random);

/// A function that draws one image into `elements` (channels × height × width), with values from 0 to 255 before
/// rounding, and returns what is known about it.
/// @param label  drawn among the classes of the form
using Draw = std::function<Annotation(std::int32_t label, Random& random, std::span<double> elements)>;

/// What the images of a source have in common.
struct DrawnForm {
  std::string name;
  data::ImageShape shape;
  std::int64_t classes = 0;  ///< of the label that is drawn for an image
  std::vector<std::string> class_names;
  RandomStream train;
  RandomStream val;
};

/// Draws both parts, each image from its own random numbers.
/// @throws Error{invalid_argument} if a number of samples is not positive
SourcePair draw_sources(const DrawnForm& form, const SyntheticOptions& options, const Draw& draw);

/// Red, green and blue, from 0 to 255.
using Rgb = std::array<double, 3>;

Rgb random_color(Random& random);
/// Returns a random color that differs visibly from `other`.
Rgb color_unlike(const Rgb& other, Random& random);

/// Returns the distance from a point inside to the edge of a triangle with this inner radius around the origin;
/// negative outside.
double inside_triangle(Point p, double radius);
/// Returns the same for a square.
double inside_square(Point p, double radius);
/// Returns the same for a cross whose bars reach `radius` from its middle, with a half width of a third of that.
double inside_cross(Point p, double radius);

// Pen strokes: those of the digits, and drawing them.

/// The points of one movement of the pen. A smooth curve joins them; two points are joined by a straight line.
using Stroke = std::vector<Point>;

/// One way to write a digit: its strokes, in a box of −1 … 1 with y downwards.
using StrokeGlyph = std::vector<Stroke>;

/// Returns the ways in which people write a digit. @pre 0 ≤ digit ≤ 9
std::span<const StrokeGlyph> digit_glyphs(int digit);
/// Returns "0" … "9".
std::vector<std::string> digit_names();

/// The size of a sheet in pixels.
struct Sheet {
  int width;
  int height;
};

/// The squared distance from each pixel's center to the middle of the nearest line, as far as the pen reaches.
class DistanceField {
 public:
  DistanceField(Sheet sheet, double reach);
  void add_segment(Point a, Point b);
  /// Returns the distance of a pixel. @param pixel  index in row-major order
  [[nodiscard]] double distance(std::size_t pixel) const { return std::sqrt(squares_[pixel]); }

 private:
  Sheet sheet_;
  double reach_;
  std::vector<double> squares_;
};

/// Draws a smooth curve through the points of a stroke, which are in pixels.
void draw_stroke(const Stroke& stroke, DistanceField& field);

}  // namespace lockstep::vision
