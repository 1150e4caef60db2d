// SPDX-License-Identifier: Apache-2.0
#include "data/scenes.hpp"

#include <array>
#include <cmath>

#include "data/canvas.hpp"

namespace lockstep::data {

namespace {

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

}  // namespace

Drawn<Scene> draw_scenes(const char* name, Count count, std::uint64_t seed, Stream stream) {
  const Images form{.name = name, .shape = {3, scene_side, scene_side}, .classes = scene_classes};
  std::vector<Scene> scenes;
  const auto draw = [&scenes](std::int32_t label, Random& random, std::span<double> elements) {
    scenes.push_back(draw_scene(label, random, elements));
  };
  Images images = draw_images(form, count, seed, stream, draw);
  return {std::move(images), std::move(scenes)};
}

}  // namespace lockstep::data
