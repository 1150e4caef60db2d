// SPDX-License-Identifier: Apache-2.0
// Color images of one to three shapes that may cover each other, for detection and segmentation.
#include <algorithm>
#include <cmath>

#include "data/drawn.hpp"

namespace lockstep::data {
namespace {

/// Number of rows, and of columns.
constexpr int scene_side = 48;
/// Number of classes: disc, triangle, square, cross.
constexpr std::int32_t scene_classes = 4;

/// The contents of an image.
struct Scene {
  std::vector<std::int32_t> labels;  ///< labels of the shapes, the rearmost first
  /// Number of the shape that is visible at each pixel, counted from 1; 0 is the background. Row-major.
  std::vector<std::uint8_t> shown;
};

constexpr std::size_t scene_pixels = scene_side * scene_side;

/// Returns the upper left corner of a pixel.
Point place_of(std::size_t pixel) {
  const std::size_t row = pixel / scene_side;
  return {static_cast<double>(pixel % scene_side), static_cast<double>(row)};
}

struct SceneObject {
  std::int32_t label;
  Color color;
  Rotation rotation;
  Point center;
  double radius;
};

/// Returns a random radius. Small, medium and large ones are equally likely, so that each scale of a detector has as
/// much to do.
double object_radius(Random& random) {
  constexpr std::array<std::array<double, 2>, 3> ranges{{{3.5, 5.5}, {6.5, 10}, {13, 18}}};
  const auto& range = ranges[random.below(ranges.size())];
  return random.uniform(range[0], range[1]);
}

SceneObject random_object(std::int32_t label, const Color& background, Random& random) {
  SceneObject object{.label = label,
                     .color = color_unlike(background, random),
                     .rotation = rotation_from_half_tangent(random.uniform(-1, 1)),
                     .center = {},
                     .radius = object_radius(random)};
  const double margin = 0.8 * object.radius;
  object.center = {random.uniform(margin, scene_side - margin), random.uniform(margin, scene_side - margin)};
  return object;
}

/// Returns the distance in pixels from a point inside to the edge; negative outside.
double inside(const SceneObject& object, Point at) {
  const Point p = object.rotation(at - object.center);
  switch (object.label) {
    case 0: return object.radius - std::sqrt(dot(p, p));
    case 1: return inside_triangle(p, 0.6 * object.radius);
    case 2: return inside_square(p, 0.8 * object.radius);
    default: return inside_cross(p, object.radius);
  }
}

void draw_object(const SceneObject& object, std::uint8_t number, std::span<double> elements, Scene& scene) {
  for (std::size_t i = 0; i < scene_pixels; ++i) {
    const Point at = place_of(i) + Point{0.5, 0.5};
    const double share = coverage(inside(object, at));
    for (std::size_t channel = 0; channel < 3; ++channel) {
      double& element = elements[channel * scene_pixels + i];
      element = share * object.color[channel] + (1 - share) * element;
    }
    if (share >= 0.5) scene.shown[i] = number;
  }
}

/// @param label  label of the foremost shape
Scene draw_scene(std::int32_t label, Random& random, std::span<double> elements) {
  const Color background = random_color(random);
  const Point light{random.uniform(-1, 1), random.uniform(-1, 1)};  // brightness per pixel across the image
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Point from_middle = place_of(i % scene_pixels) - Point{scene_side / 2.0, scene_side / 2.0};
    elements[i] = background[i / scene_pixels] + dot(light, from_middle);
  }
  Scene scene{.labels = {}, .shown = std::vector<std::uint8_t>(scene_pixels)};
  for (std::uint64_t behind = random.below(3); behind > 0; --behind)
    scene.labels.push_back(static_cast<std::int32_t>(random.below(scene_classes)));
  scene.labels.push_back(label);
  for (std::size_t i = 0; i < scene.labels.size(); ++i)
    draw_object(random_object(scene.labels[i], background, random), static_cast<std::uint8_t>(i + 1), elements, scene);
  add_noise(elements, random.uniform(3, 15), random);
  return scene;
}

template <typename Kind>
DatasetPair scenes_pair(const char* name, const SyntheticOptions& options) {
  const Images form{.name = name, .shape = {3, scene_side, scene_side}, .classes = scene_classes};
  return drawn_pair<Kind>(form, options, RandomStream::scenes_train, RandomStream::scenes_test, draw_scene);
}

constexpr std::array<int, 3> strides{4, 8, 16};
constexpr std::int32_t no_label = -100;  // cross-entropy ignores this label
constexpr int fewest_pixels = 12;        // a shape with fewer visible pixels does not count

/// Returns the number of cells of all scales.
constexpr std::int64_t cell_count() {
  std::int64_t count = 0;
  for (const int stride : strides) count += (scene_side / stride) * (scene_side / stride);
  return count;
}

/// A shape and the box around its visible part, in pixels; right and bottom are the first ones beyond it.
struct SeenObject {
  std::int32_t label;
  int left = scene_side;
  int top = scene_side;
  int right = 0;
  int bottom = 0;
  int pixels = 0;

  void add(int x, int y) {
    left = std::min(left, x);
    top = std::min(top, y);
    right = std::max(right, x + 1);
    bottom = std::max(bottom, y + 1);
    ++pixels;
  }
  [[nodiscard]] int side() const { return std::max(right - left, bottom - top); }
};

std::vector<SeenObject> objects_of(const Scene& scene) {
  std::vector<SeenObject> objects;
  for (const std::int32_t label : scene.labels) objects.push_back({.label = label});
  for (int y = 0; y < scene_side; ++y) {
    for (int x = 0; x < scene_side; ++x) {
      const auto pixel = static_cast<std::size_t>(y) * scene_side + static_cast<std::size_t>(x);
      const std::size_t shown = scene.shown[pixel];
      if (shown > 0) objects[shown - 1].add(x, y);
    }
  }
  std::erase_if(objects, [](const SeenObject& object) { return object.pixels < fewest_pixels; });
  return objects;
}

/// The cell that an object belongs to, and its box relative to the center of that cell, in strides.
struct Assignment {
  std::int64_t cell;
  std::array<double, 4> box;
};

Assignment assign(const SeenObject& object) {
  std::int64_t first = 0;  // first cell of the scale
  for (const int stride : strides) {
    const int row = scene_side / stride;
    if (object.side() < 3 * stride || stride == strides.back()) {
      const int x = (object.left + object.right) / 2 / stride;
      const int y = (object.top + object.bottom) / 2 / stride;
      const auto in_strides = [stride](int edge, int cell) { return static_cast<double>(edge) / stride - cell - 0.5; };
      return {first + y * row + x,
              {in_strides(object.left, x), in_strides(object.top, y), in_strides(object.right, x),
               in_strides(object.bottom, y)}};
    }
    first += std::int64_t{row} * row;
  }
  return {};
}

/// A data set with the positions of the shapes, for each cell of three scales.
class BoxDataset final : public DrawnDataset {
 public:
  BoxDataset(Images images, Normalization normalization, const std::vector<Scene>& scenes)
      : DrawnDataset(std::move(images), std::move(normalization)) {
    for (const Scene& scene : scenes) objects_.push_back(objects_of(scene));
  }

  [[nodiscard]] std::int64_t classes() const override { return scene_classes; }

 private:
  [[nodiscard]] std::vector<TensorSpec> targets() const override {
    return {{"labels", {1, 1, cell_count()}, Content::integer},
            {"objects", {1, 1, cell_count()}, Content::real},
            {"boxes", {4, 1, cell_count()}, Content::real}};
  }

  void read_targets(std::size_t sample, std::span<const Buffer> targets) const override {
    constexpr std::int64_t cells = cell_count();
    for (std::int64_t i = 0; i < cells; ++i) {
      put(targets[0], i, no_label);
      put(targets[1], i, 0);
    }
    for (std::int64_t i = 0; i < 4 * cells; ++i) put(targets[2], i, 0);
    for (const SeenObject& object : objects_[sample]) {
      const Assignment to = assign(object);
      put(targets[0], to.cell, object.label);
      put(targets[1], to.cell, 1);
      for (std::size_t edge = 0; edge < to.box.size(); ++edge)
        put(targets[2], static_cast<std::int64_t>(edge) * cells + to.cell, to.box[edge]);
    }
  }

  std::vector<std::vector<SeenObject>> objects_;
};

/// A data set with the contents of each pixel.
class MaskDataset final : public DrawnDataset {
 public:
  MaskDataset(Images images, Normalization normalization, std::vector<Scene> scenes)
      : DrawnDataset(std::move(images), std::move(normalization)), scenes_(std::move(scenes)) {}

  [[nodiscard]] std::int64_t classes() const override { return scene_classes + 1; }

 private:
  [[nodiscard]] std::vector<TensorSpec> targets() const override {
    return {{"labels", {1, scene_side, scene_side}, Content::integer},
            {"masks", {classes(), scene_side, scene_side}, Content::real}};
  }

  void read_targets(std::size_t sample, std::span<const Buffer> targets) const override {
    constexpr std::int64_t pixels = scene_side * scene_side;
    const Scene& scene = scenes_[sample];
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::size_t shown = scene.shown[static_cast<std::size_t>(i)];
      const std::int32_t label = shown == 0 ? 0 : scene.labels[shown - 1] + 1;
      put(targets[0], i, label);
      for (std::int64_t c = 0; c < classes(); ++c) put(targets[1], c * pixels + i, c == label ? 1 : 0);
    }
  }

  std::vector<Scene> scenes_;
};

}  // namespace

DatasetPair synthetic_boxes(const SyntheticOptions& options) {
  return scenes_pair<BoxDataset>("synthetic-boxes", options);
}

DatasetPair synthetic_masks(const SyntheticOptions& options) {
  return scenes_pair<MaskDataset>("synthetic-masks", options);
}

}  // namespace lockstep::data
