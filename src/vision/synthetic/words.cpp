// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "vision/synthetic/canvas.hpp"

namespace lockstep::vision {

namespace {

constexpr int word_height = 16;
constexpr int word_width = 64;
constexpr int longest_word = 5;

/// Writes one digit. @param left  its beginning, in pixels @return the beginning of the next digit
double write_digit(std::int32_t digit, double left, Random& random, DistanceField& ink) {
  const Point scale{random.uniform(5.8, 7.2), random.uniform(5, 6.3)};
  const double slant = random.uniform(-0.12, 0.12);
  const Point center{left + 0.6 * scale.x, word_height / 2.0 + random.uniform(-1, 1)};
  const auto forms = digit_glyphs(digit);
  for (const Stroke& stroke : forms[random.below(forms.size())]) {
    Stroke on_paper;
    for (const Point p : stroke) {
      const Point jittered = p + Point{random.uniform(-0.05, 0.05), random.uniform(-0.05, 0.05)};
      on_paper.push_back(center + Point{scale.x * (jittered.x - slant * jittered.y), scale.y * jittered.y});
    }
    draw_stroke(on_paper, ink);
  }
  return left + 1.2 * scale.x + random.uniform(2, 3);
}

/// @param first  the word's first digit @return the word, with a box around what is written
Annotation draw_word(std::int32_t first, Random& random, std::span<double> elements) {
  std::vector<std::int32_t> digits = {first};
  for (std::uint64_t more = random.below(longest_word); more > 0; --more)
    digits.push_back(static_cast<std::int32_t>(random.below(10)));
  const double half_width = random.uniform(0.5, 0.9);
  DistanceField ink({word_width, word_height}, half_width + 1);
  const double begin = random.uniform(1, 3);
  double end = begin;
  Annotation word;
  for (const std::int32_t digit : digits) {
    end = write_digit(digit, end, random, ink);
    word.text += static_cast<char>('0' + digit);
  }
  word.boxes.push_back({.left = std::floor(static_cast<float>(begin)),
                        .right = static_cast<float>(std::min(static_cast<int>(end), word_width)),
                        .bottom = word_height});
  const double paper = random.uniform(0, 40);
  const double contrast = random.uniform(130, 215);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = paper + contrast * coverage(half_width - ink.distance(i));
  add_noise(elements, random.uniform(4, 20), random);
  return word;
}

}  // namespace

SourcePair synthetic_words(const SyntheticOptions& options) {
  return draw_sources({.name = "synthetic-words",
                       .shape = {1, word_height, word_width},
                       .classes = 10,
                       .class_names = digit_names(),
                       .train = RandomStream::words_train,
                       .val = RandomStream::words_test},
                      options, draw_word);
}

}  // namespace lockstep::vision
