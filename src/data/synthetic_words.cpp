// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "data/drawn.hpp"

namespace lockstep::data {

namespace {

constexpr int word_height = 16;
constexpr int word_width = 64;
constexpr int longest_word = 5;
constexpr int pixels_per_step = 4;

struct Word {
  std::vector<std::int32_t> digits;
  std::int32_t steps = 0;
};

/// Writes one digit. @param left  its beginning, in pixels @return the beginning of the next digit
double write_digit(std::int32_t digit, double left, Random& random, DistanceField& ink) {
  const Point scale{random.uniform(5.8, 7.2), random.uniform(5, 6.3)};
  const double slant = random.uniform(-0.12, 0.12);
  const Point center{left + 0.6 * scale.x, word_height / 2.0 + random.uniform(-1, 1)};
  const auto forms = glyphs(digit);
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

/// @param first  the word's first digit
Word draw_word(std::int32_t first, Random& random, std::span<double> elements) {
  Word word{.digits = {first}};
  for (std::uint64_t more = random.below(longest_word); more > 0; --more)
    word.digits.push_back(static_cast<std::int32_t>(random.below(10)));
  const double half_width = random.uniform(0.5, 0.9);
  DistanceField ink({word_width, word_height}, half_width + 1);
  double end = random.uniform(1, 3);
  for (const std::int32_t digit : word.digits) end = write_digit(digit, end, random, ink);
  word.steps = std::min(static_cast<std::int32_t>(end) / pixels_per_step + 1, word_width / pixels_per_step);
  const double paper = random.uniform(0, 40);
  const double contrast = random.uniform(130, 215);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = paper + contrast * coverage(half_width - ink.distance(i));
  add_noise(elements, random.uniform(4, 20), random);
  return word;
}

class WordDataset final : public DrawnDataset {
 public:
  WordDataset(Images images, Normalization normalization, std::vector<Word> words)
      : DrawnDataset(std::move(images), std::move(normalization)), words_(std::move(words)) {}

  [[nodiscard]] std::int64_t classes() const override { return 10; }

 private:
  [[nodiscard]] std::vector<TensorSpec> targets() const override {
    return {{"targets", {1, 1, longest_word}, Content::integer},
            {"target_lengths", {1, 1, 1}, Content::integer},
            {"steps", {1, 1, 1}, Content::integer}};
  }

  void read_targets(std::size_t sample, std::span<const Buffer> targets) const override {
    const Word& word = words_[sample];
    for (std::size_t i = 0; i < longest_word; ++i)
      put(targets[0], static_cast<std::int64_t>(i), i < word.digits.size() ? word.digits[i] : 0);
    put(targets[1], 0, static_cast<double>(word.digits.size()));
    put(targets[2], 0, word.steps);
  }

  std::vector<Word> words_;
};

}  // namespace

DatasetPair synthetic_words(const SyntheticOptions& options) {
  const Images form{.name = "synthetic-words", .shape = {1, word_height, word_width}, .classes = 10};
  return drawn_pair<WordDataset>(form, options, RandomStream::words_train, RandomStream::words_test, draw_word);
}

}  // namespace lockstep::data
