// SPDX-License-Identifier: Apache-2.0
// Rgb images of one to three shapes that may cover each other, for detection and segmentation.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "vision/synthetic/canvas.hpp"

namespace lockstep::vision {
namespace {

/// Number of rows, and of columns.
constexpr int scene_side = 48;
constexpr std::array<const char*, 4> scene_classes = {"disc", "triangle", "square", "cross"};

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
  Rgb color;
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

SceneObject random_object(std::int32_t label, const Rgb& background, Random& random) {
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
  const Rgb background = random_color(random);
  const Point light{random.uniform(-1, 1), random.uniform(-1, 1)};  // brightness per pixel across the image
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Point from_middle = place_of(i % scene_pixels) - Point{scene_side / 2.0, scene_side / 2.0};
    elements[i] = background[i / scene_pixels] + dot(light, from_middle);
  }
  Scene scene{.labels = {}, .shown = std::vector<std::uint8_t>(scene_pixels)};
  for (std::uint64_t behind = random.below(3); behind > 0; --behind)
    scene.labels.push_back(static_cast<std::int32_t>(random.below(scene_classes.size())));
  scene.labels.push_back(label);
  for (std::size_t i = 0; i < scene.labels.size(); ++i)
    draw_object(random_object(scene.labels[i], background, random), static_cast<std::uint8_t>(i + 1), elements, scene);
  add_noise(elements, random.uniform(3, 15), random);
  return scene;
}

constexpr int fewest_pixels = 12;  // a shape with fewer visible pixels does not count

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
};

/// Returns the boxes of the shapes that can be seen, the rearmost first.
Annotation boxes_of(const Scene& scene) {
  std::vector<SeenObject> objects;
  for (const std::int32_t label : scene.labels) objects.push_back({.label = label});
  for (int y = 0; y < scene_side; ++y) {
    for (int x = 0; x < scene_side; ++x) {
      const auto pixel = static_cast<std::size_t>(y) * scene_side + static_cast<std::size_t>(x);
      const std::size_t shown = scene.shown[pixel];
      if (shown > 0) objects[shown - 1].add(x, y);
    }
  }
  Annotation annotation;
  for (const SeenObject& object : objects)
    if (object.pixels >= fewest_pixels)
      annotation.boxes.push_back({.label = object.label,
                                  .left = static_cast<float>(object.left),
                                  .top = static_cast<float>(object.top),
                                  .right = static_cast<float>(object.right),
                                  .bottom = static_cast<float>(object.bottom)});
  return annotation;
}

/// Returns the class of each pixel: 0 for the background and 1 … 4 for the shapes.
Annotation mask_of(const Scene& scene) {
  Annotation annotation;
  annotation.mask.resize(scene_side, scene_side, 1);
  std::ranges::transform(scene.shown, annotation.mask.pixels.begin(), [&](std::size_t shown) {
    return static_cast<std::uint8_t>(shown == 0 ? 0 : scene.labels[shown - 1] + 1);
  });
  return annotation;
}

SourcePair draw_scenes(const char* name, std::vector<std::string> class_names, Annotation (*annotate)(const Scene&),
                       const SyntheticOptions& options) {
  return draw_sources({.name = name,
                       .shape = {3, scene_side, scene_side},
                       .classes = std::ssize(scene_classes),
                       .class_names = std::move(class_names),
                       .train = RandomStream::scenes_train,
                       .val = RandomStream::scenes_test},
                      options, [annotate](std::int32_t label, Random& random, std::span<double> elements) {
                        return annotate(draw_scene(label, random, elements));
                      });
}

}  // namespace

SourcePair synthetic_boxes(const SyntheticOptions& options) {
  return draw_scenes("synthetic-boxes", {scene_classes.begin(), scene_classes.end()}, boxes_of, options);
}

SourcePair synthetic_masks(const SyntheticOptions& options) {
  std::vector<std::string> names{"background"};
  names.insert(names.end(), scene_classes.begin(), scene_classes.end());
  return draw_scenes("synthetic-masks", std::move(names), mask_of, options);
}

}  // namespace lockstep::vision
