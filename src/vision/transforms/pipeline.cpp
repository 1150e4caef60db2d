// SPDX-License-Identifier: Apache-2.0
#include "vision/transforms/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

/// One transform as users write it.
struct Item {
  std::string name;
  std::optional<std::string> value;
};

[[noreturn]] void refuse_item(const Item& item, const std::string& wanted) {
  const std::string value = item.value ? "'" + echo(*item.value) + "'" : "no value";
  throw Error(ErrorCode::invalid_argument, "the transform " + item.name + " has " + value + "; give it " + wanted);
}

/// Reads a whole text as a number; returns nothing if it is another text, or the number is out of range.
template <typename Number>
std::optional<Number> number_in(std::string_view text, Number least, Number most) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !(number >= least && number <= most)) return {};
  return number;
}

std::optional<int> pixels_in(std::string_view text, int least = 1) { return number_in(text, least, 10'000); }

/// Reads "SIDE" or "HEIGHTxWIDTH".
std::optional<Size> size_in(std::string_view text) {
  const std::size_t cross = text.find('x');
  const auto height = pixels_in(text.substr(0, cross));
  const auto width = cross == std::string_view::npos ? height : pixels_in(text.substr(cross + 1));
  if (!height || !width) return {};
  return Size{.width = *width, .height = *height};
}

Size chosen_size(const Item& item, const Size& input) {
  if (!item.value) return input;
  if (const auto size = size_in(*item.value)) return *size;
  refuse_item(item, "a side or HEIGHTxWIDTH in pixels, such as " + item.name + ":224");
}

Transform make_crop(const Item& item, const Size& /*input*/) {
  if (!item.value) return pad_and_crop(4);
  if (const auto border = pixels_in(*item.value)) return pad_and_crop(*border);
  refuse_item(item, "the border in pixels, such as crop:4");
}

Transform make_flip(const Item& item, const Size& /*input*/) {
  if (item.value) refuse_item(item, "none: it takes no value");
  return random_flip();
}

Transform make_resize(const Item& item, const Size& /*input*/) {
  if (item.value) {
    if (const auto side = pixels_in(*item.value)) return resize_shorter_side(*side);
    if (const auto size = size_in(*item.value)) return resize_to(*size);
  }
  refuse_item(item, "the shorter side or HEIGHTxWIDTH in pixels, such as resize:256");
}

/// A number of a value, and its range from 0.
struct Part {
  double* number;
  double most;
};

/// Reads "NUMBER[,NUMBER…]" over the first numbers. @return whether that is what the text says
bool read_numbers(std::string_view text, std::span<const Part> parts) {
  for (const auto& [into, most] : parts) {
    const std::size_t comma = text.find(',');
    const auto number = number_in(text.substr(0, comma), 0.0, most);
    if (!number) return false;
    *into = *number;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
  return false;
}

Transform make_color_jitter(const Item& item, const Size& /*input*/) {
  ColorJitter most;
  const std::array<Part, 4> parts = {
      {{&most.brightness, 10}, {&most.contrast, 10}, {&most.saturation, 10}, {&most.hue, 0.5}}};
  if (!item.value || read_numbers(*item.value, parts)) return color_jitter(most);
  refuse_item(item,
              "the most that brightness, contrast, saturation (0 to 10) and hue (0 to 0.5) change, such as "
              "color-jitter:0.4,0.4,0.4,0.1");
}

Transform make_hsv(const Item& item, const Size& /*input*/) {
  HsvGains gains;
  const std::array<Part, 3> parts = {{{&gains.hue, 1}, {&gains.saturation, 1}, {&gains.value, 1}}};
  if (!item.value || read_numbers(*item.value, parts)) return random_hsv(gains);
  refuse_item(item, "the gains of hue, saturation and value (0 to 1), such as hsv:0.015,0.7,0.4");
}

Transform make_affine(const Item& item, const Size& input) {
  AffineRange most;
  const std::array<Part, 4> parts = {
      {{&most.scale, 0.9}, {&most.translate, 0.9}, {&most.degrees, 180}, {&most.shear, 40}}};
  if (!item.value || read_numbers(*item.value, parts)) return random_affine(input, most);
  refuse_item(item,
              "the most that it scales and moves (0 to 0.9), turns (0 to 180 degrees) and shears (0 to 40 degrees), "
              "such as affine:0.5,0.1,0,0");
}

Transform make_scale(const Item& item, const Size& /*input*/) {
  double least = 0.5;
  double most = 2;
  const std::array<Part, 2> parts = {{{&least, 8}, {&most, 8}}};
  const bool is_read = !item.value || read_numbers(*item.value, parts);
  if (is_read && least > 0 && least <= most) return random_scale(least, most);
  refuse_item(item, "the least and the largest factor (above 0, to 8), such as scale:0.5,2");
}

Transform make_mosaic(const Item& item, const Size& input) {
  double probability = 1;
  const std::array<Part, 1> parts = {{{&probability, 1}}};
  if (!item.value || read_numbers(*item.value, parts)) return mosaic(input, probability);
  refuse_item(item, "its probability, such as mosaic:0.5");
}

/// A transform that users can name.
struct Entry {
  std::string_view name;
  std::string_view value;  ///< how its value is written
  Transform (*make)(const Item& item, const Size& input);
};

constexpr std::array<Entry, 14> entries = {{
    {"crop", "[:PIXELS]", make_crop},
    {"flip", "", make_flip},
    {"random-resized-crop", "[:SIZE]",
     [](const Item& item, const Size& input) { return random_resized_crop(chosen_size(item, input)); }},
    {"scale", "[:LEAST,MOST]", make_scale},
    {"random-crop", "[:SIZE]",
     [](const Item& item, const Size& input) { return random_crop(chosen_size(item, input)); }},
    {"resize", ":SIZE", make_resize},
    {"letterbox", "[:SIZE]", [](const Item& item, const Size& input) { return letterbox(chosen_size(item, input)); }},
    {"center-crop", "[:SIZE]",
     [](const Item& item, const Size& input) { return center_crop(chosen_size(item, input)); }},
    {"color-jitter", "[:B,C,S,H]", make_color_jitter},
    {"hsv", "[:H,S,V]", make_hsv},
    {"affine", "[:SCALE,TRANSLATE,DEGREES,SHEAR]", make_affine},
    {"mosaic", "[:PROBABILITY]", make_mosaic},
    {"line", "[:SIZE]",
     [](const Item& item, const Size& input) { return fit_line(chosen_size(item, input), LineEnd::zeros); }},
    {"line-repeat", "[:SIZE]",
     [](const Item& item, const Size& input) { return fit_line(chosen_size(item, input), LineEnd::last_column); }},
}};

const Entry& entry_of(const Item& item) {
  std::array<std::string_view, entries.size()> names;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name == item.name) return entries[i];
    names[i] = entries[i].name;
  }
  throw Error(ErrorCode::invalid_argument, unknown("transform", item.name, names));
}

/// Divides "crop:4,color-jitter:0.4,0.4,flip" at the commas before names. What begins otherwise belongs to the value of
/// the item before.
std::vector<Item> items_in(std::string_view text) {
  std::vector<Item> items;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const bool is_value = !word.empty() && (std::isdigit(static_cast<unsigned char>(word[0])) != 0 || word[0] == '.');
    if (is_value && !items.empty() && items.back().value) {
      *items.back().value += "," + std::string(word);
    } else {
      const std::size_t colon = word.find(':');
      items.push_back({std::string(word.substr(0, colon)), {}});
      if (colon != std::string_view::npos) items.back().value = std::string(word.substr(colon + 1));
    }
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

int needed_side(std::span<const Transform> transforms) {
  for (const Transform& transform : transforms)
    if (transform.needed_side) return *transform.needed_side;
  return 0;
}

bool set_size(std::span<const Transform> transforms) {
  return std::any_of(transforms.begin(), transforms.end(), [](const Transform& t) { return t.sets_size; });
}

std::vector<Transform> parse_transforms(std::string_view text, const Size& input) {
  if (text == "none") return {};
  std::vector<Item> items = items_in(text);
  const auto is_named = [](std::string_view name) { return [name](const Item& item) { return item.name == name; }; };
  // Both draw from the same numbers, as data::Augmentation, which always mirrors what it has cut out.
  const auto flip = std::find_if(items.begin(), items.end(), is_named("flip"));
  if (const auto crop = std::find_if(flip, items.end(), is_named("crop")); crop != items.end())
    std::rotate(flip, flip + 1, crop + 1);
  std::vector<Transform> transforms;
  for (const Item& item : items) {
    if (std::count_if(items.begin(), items.end(), is_named(item.name)) > 1)
      throw Error(ErrorCode::invalid_argument, "the transform " + echo(item.name) + " is named twice; name it once");
    transforms.push_back(entry_of(item).make(item, input));
    if (transforms.back().compose && transforms.size() > 1)
      throw Error(ErrorCode::invalid_argument,
                  "the transform " + echo(item.name) + " makes one picture of several; name it first");
  }
  return transforms;
}

std::string transform_names() {
  std::string names;
  for (const Entry& entry : entries)
    names += (names.empty() ? "" : ", ") + std::string(entry.name) + std::string(entry.value);
  return names;
}

std::string text_of(const std::vector<Transform>& transforms) {
  std::string text;
  for (const Transform& transform : transforms) text += (text.empty() ? "" : ",") + transform.text;
  return text.empty() ? "none" : text;
}

Pipelines classification_pipelines(std::string_view augment, const Size& input, bool are_equal) {
  if (are_equal) return {.training = parse_transforms(augment.empty() ? "none" : augment, input), .evaluation = {}};
  const double side = std::min(input.width, input.height) / 0.875;  // 256 for 224
  Pipelines pipelines{.training = parse_transforms(augment.empty() ? "flip" : augment, input),
                      .evaluation = {resize_shorter_side(static_cast<int>(side)), center_crop(input)}};
  std::vector<Transform>& training = pipelines.training;
  if (training.empty()) {
    training = pipelines.evaluation;
  } else if (!set_size(training)) {
    training.insert(training.begin(), random_resized_crop(input));
  }
  return pipelines;
}

StepSize classification_step(std::string_view augment, const Size& size, bool are_equal) {
  StepSize step{.size = size, .transforms = classification_pipelines(augment, size, are_equal).training};
  step.transforms.push_back(resize_to(size));
  return step;
}

}  // namespace lockstep::vision
