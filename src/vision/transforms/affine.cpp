// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "data/sample_random.hpp"
#include "vision/image/warp.hpp"
#include "vision/transforms/geometry.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {
namespace {

constexpr float least_box_side = 2;  // in pixels
constexpr float least_box_part = 0.1F;
constexpr float most_box_ratio = 100;

/// Sine and cosine of an angle up to 180 degrees, by their series, in operations that round alike on every machine;
/// std::sin does not.
struct Angle {
  double sine = 0;
  double cosine = 1;

  explicit Angle(double degrees) {
    const double x = degrees * (std::numbers::pi / 180);
    double of_sine = 0;
    double of_cosine = 0;
    for (int n = 30; n > 0; --n) {
      of_sine = x * x / ((2.0 * n) * (2.0 * n + 1)) * (1 - of_sine);
      of_cosine = x * x / ((2.0 * n - 1) * (2.0 * n)) * (1 - of_cosine);
    }
    sine = x * (1 - of_sine);
    cosine = 1 - of_cosine;
  }
};

/// A linear map of the plane.
struct LinearMap {
  double xx = 1;
  double xy = 0;
  double yx = 0;
  double yy = 1;

  [[nodiscard]] double determinant() const { return xx * yy - xy * yx; }
  [[nodiscard]] LinearMap inverse() const {
    const double d = determinant();
    return {yy / d, -xy / d, -yx / d, xx / d};
  }
};

/// What is drawn for a sample, from the picture to the result. Everything is drawn for every sample.
struct DrawnMap {
  LinearMap linear;
  double scale = 1;
  double x = 0;  ///< where the middle of the picture comes to lie
  double y = 0;
};

DrawnMap draw_map(const data::SampleKey& key, const Size& size, const AffineRange& most) {
  data::Random random = data::random_of(key, data::RandomStream::affine);
  const auto within = [&random](double range) { return random.uniform(-range, range); };
  const Angle turn(within(most.degrees));
  DrawnMap drawn;
  drawn.scale = 1 + within(most.scale);
  const Angle horizontal(within(most.shear));
  const Angle vertical(within(most.shear));
  drawn.x = (0.5 + within(most.translate)) * size.width;
  drawn.y = (0.5 + within(most.translate)) * size.height;
  const double along = drawn.scale * turn.cosine;
  const double across = drawn.scale * turn.sine;
  const double shear_x = horizontal.sine / horizontal.cosine;
  const double shear_y = vertical.sine / vertical.cosine;
  drawn.linear = {along - shear_x * across, across + shear_x * along, shear_y * along - across,
                  shear_y * across + along};
  return drawn;
}

/// Returns where points of the result come from in a picture.
AffineMap source_of(const DrawnMap& drawn, int width, int height) {
  const LinearMap back = drawn.linear.inverse();
  return {.xx = back.xx,
          .xy = back.xy,
          .x0 = 0.5 * width - back.xx * drawn.x - back.xy * drawn.y,
          .yx = back.yx,
          .yy = back.yy,
          .y0 = 0.5 * height - back.yx * drawn.x - back.yy * drawn.y};
}

/// A rectangle by its edges.
struct Edges {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

/// Returns the edges of a rectangle's corners after a map.
Edges mapped(const AffineMap& map, const Edges& edges) {
  Edges result{1e30, 1e30, -1e30, -1e30};
  for (const double x : {edges.left, edges.right}) {
    for (const double y : {edges.top, edges.bottom}) {
      const double to_x = map.xx * x + map.xy * y + map.x0;
      const double to_y = map.yx * x + map.yy * y + map.y0;
      result = {std::min(result.left, to_x), std::min(result.top, to_y), std::max(result.right, to_x),
                std::max(result.bottom, to_y)};
    }
  }
  return result;
}

Region seen_part(const DrawnMap& drawn, const Size& size, int width, int height) {
  const Edges edges = mapped(source_of(drawn, width, height),
                             {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)});
  const auto low = [](double edge, int extent) {  // interpolation reaches into the next pixel
    return static_cast<int>(std::clamp(std::floor(edge) - 1, 0.0, static_cast<double>(extent)));
  };
  const auto high = [](double edge, int extent) {
    return static_cast<int>(std::clamp(std::ceil(edge) + 1, 0.0, static_cast<double>(extent)));
  };
  const int left = low(edges.left, width);
  const int top = low(edges.top, height);
  return {
      .left = left, .top = top, .width = high(edges.right, width) - left, .height = high(edges.bottom, height) - top};
}

/// Moves boxes with the picture, clips them, and drops those of which too little is left.
void move_boxes(const AffineMap& map, double scale, const Size& size, std::vector<Box>& boxes) {
  const auto clip = [](double edge, int extent) {
    return std::clamp(static_cast<float>(edge), 0.0F, static_cast<float>(extent));
  };
  const auto is_lost = [&](Box& box) {
    const double before = (box.right - box.left) * (box.bottom - box.top) * (scale * scale);
    const Edges edges = mapped(map, {box.left, box.top, box.right, box.bottom});
    box.left = clip(edges.left, size.width);
    box.top = clip(edges.top, size.height);
    box.right = clip(edges.right, size.width);
    box.bottom = clip(edges.bottom, size.height);
    const float width = box.right - box.left;
    const float height = box.bottom - box.top;
    const bool is_kept = width > least_box_side && height > least_box_side &&
                         width * height > least_box_part * before &&
                         std::max(width, height) < most_box_ratio * std::min(width, height);
    return !is_kept;
  };
  std::erase_if(boxes, is_lost);
}

/// Moves the frame with the picture; a picture that is turned or sheared has none.
void move_frame(const AffineMap& map, Frame& frame) {
  if (frame.width == 0 || map.xy != 0 || map.yx != 0) {
    frame = {};
    return;
  }
  frame.scale_x *= map.xx;
  frame.left = map.xx * frame.left + map.x0;
  frame.scale_y *= map.yy;
  frame.top = map.yy * frame.top + map.y0;
}

}  // namespace

Transform random_affine(Size size, const AffineRange& most) {
  return {.text = "affine:" + short_text(most.scale) + "," + short_text(most.translate) + "," +
                  short_text(most.degrees) + "," + short_text(most.shear),
          .apply =
              [size, most](const data::SampleKey& key, Image& picture, Annotation& annotation, Image& scratch) {
                const DrawnMap drawn = draw_map(key, size, most);
                const AffineMap source = source_of(drawn, picture.width, picture.height);
                warp(picture, source, size.width, size.height, letterbox_gray, scratch);
                change_mask(annotation, [&](const Image& mask, Image& to) {
                  warp_nearest(mask, source, size.width, size.height, left_out_pixel, to);
                });
                const auto& [xx, xy, yx, yy] = drawn.linear;
                const double x = 0.5 * picture.width;
                const double y = 0.5 * picture.height;
                const AffineMap map{xx, xy, drawn.x - xx * x - xy * y, yx, yy, drawn.y - yx * x - yy * y};
                std::swap(picture, scratch);
                move_boxes(map, drawn.scale, size, annotation.boxes);
                move_frame(map, annotation.frame);
              },
          .needed_side = 0,
          .sets_size = true,
          .seen = [size, most](const data::SampleKey& key, int width,
                               int height) { return seen_part(draw_map(key, size, most), size, width, height); }};
}

}  // namespace lockstep::vision
