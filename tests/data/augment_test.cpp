// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/random.hpp"
#include "data/signals.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/data/images.hpp"
#include "lockstep/data/prefetcher.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

using Pixels = std::vector<std::uint8_t>;

constexpr ImageShape shape{2, 7, 9};
constexpr Augmentation both{.crop = true, .flip = true};

/// Images of random bytes, none of which is 0, so that each image can be told from its changes.
std::shared_ptr<const ImageDataset> random_images(std::int64_t samples, ImageShape of = shape) {
  Images images{.name = "random", .shape = of, .classes = 10};
  Random random(5, RandomStream::cifar_train, 0);
  for (std::int64_t i = 0; i < samples; ++i) {
    images.labels.push_back(static_cast<std::int32_t>(i % 10));
    for (std::int64_t element = 0; element < of.elements(); ++element)
      images.images.push_back(static_cast<std::uint8_t>(1 + random.below(255)));
  }
  const Normalization normalization = measure_normalization(images);
  return std::make_shared<ImageDataset>(std::move(images), normalization);
}

template <typename Element>
std::vector<Element> read(const Dataset& dataset, const SampleKey& key) {
  std::vector<Element> image(static_cast<std::size_t>(dataset.tensors()[0].elements()));
  std::int32_t label = -1;
  dataset.read(key, std::array<Buffer, 2>{std::span(image), label});
  EXPECT_EQ(label, key.index % 10);
  return image;
}

struct Change {
  std::int64_t down = 0;
  std::int64_t right = 0;
  bool is_flipped = false;
  friend bool operator==(const Change&, const Change&) = default;
};

/// Pads an image with 4 pixels of zeros, cuts it out and mirrors it.
Pixels changed(const Pixels& image, const Change& change, const ImageShape& of = shape) {
  Pixels result;
  for (std::int64_t channel = 0; channel < of.channels; ++channel) {
    for (std::int64_t row = 0; row < of.height; ++row) {
      for (std::int64_t column = 0; column < of.width; ++column) {
        const std::int64_t y = row + change.down;
        const std::int64_t x = (change.is_flipped ? of.width - 1 - column : column) + change.right;
        const bool is_inside = y >= 0 && y < of.height && x >= 0 && x < of.width;
        result.push_back(is_inside ? image[static_cast<std::size_t>((channel * of.height + y) * of.width + x)] : 0);
      }
    }
  }
  return result;
}

/// Returns the change that makes one image of the other, if there is one.
std::optional<Change> change_between(const Pixels& before, const Pixels& after) {
  for (std::int64_t down = -4; down <= 4; ++down)
    for (std::int64_t right = -4; right <= 4; ++right)
      for (const bool is_flipped : {false, true})
        if (const Change change{down, right, is_flipped}; changed(before, change) == after) return change;
  return std::nullopt;
}

/// Returns Σ (found − expected)² ÷ expected, which is about the number of counts less one if all are equally likely.
double chi_square(const std::map<std::int64_t, int>& counts, int possibilities, int draws) {
  const double expected = static_cast<double>(draws) / possibilities;
  double sum = 0;
  int found = 0;
  for (const auto& [value, count] : counts) {
    sum += (count - expected) * (count - expected) / expected;
    ++found;
  }
  return sum + (possibilities - found) * expected;
}

TEST(Augmentation, CutsImagesOutOfABorderOfZerosAndMirrorsHalfOfThem) {
  constexpr std::int64_t samples = 400;
  constexpr int draws = 4 * static_cast<int>(samples);
  const auto original = random_images(samples);
  const auto dataset = augmented(original, both);
  std::map<std::int64_t, int> down;
  std::map<std::int64_t, int> right;
  std::map<std::int64_t, int> flipped;
  std::map<std::int64_t, int> pairs;  // of a change and that of the sample before
  Change before;
  for (std::int64_t epoch = 1; epoch <= 4; ++epoch) {
    for (std::int64_t index = 0; index < samples; ++index) {
      const SampleKey key{.seed = 3, .epoch = epoch, .index = index};
      const auto change = change_between(read<std::uint8_t>(*original, key), read<std::uint8_t>(*dataset, key));
      ASSERT_TRUE(change) << epoch << ' ' << index;
      ++down[change->down];
      ++right[change->right];
      ++flipped[change->is_flipped ? 1 : 0];
      ++pairs[(change->down + 4) * 9 + before.down + 4];
      before = *change;
    }
  }
  // Sums above the limits have a probability of 1 in 10,000.
  EXPECT_LT(chi_square(down, 9, draws), 31.8);
  EXPECT_LT(chi_square(right, 9, draws), 31.8);
  EXPECT_LT(chi_square(flipped, 2, draws), 15.1);
  EXPECT_LT(chi_square(pairs, 81, draws), 136);
}

TEST(Augmentation, ChangesRealNumbersAsItChangesBytes) {
  const auto original = random_images(40);
  const auto dataset = augmented(original, both);
  const std::vector<double> table = dataset->bytes_of(0)->table();
  for (std::int64_t index = 0; index < 40; ++index) {
    const SampleKey key{.index = index};
    const Pixels bytes = read<std::uint8_t>(*dataset, key);
    const auto singles = read<float>(*dataset, key);
    const auto doubles = read<double>(*dataset, key);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const double number = table[256 * (i / static_cast<std::size_t>(shape.pixels())) + bytes[i]];
      ASSERT_EQ(doubles[i], number) << index << ' ' << i;
      ASSERT_EQ(singles[i], static_cast<float>(number)) << index << ' ' << i;
    }
  }
}

TEST(Augmentation, DoesWhatItIsAskedForAndNoMore) {
  const auto original = random_images(60);
  const auto crops = augmented(original, {.crop = true});
  const auto flips = augmented(original, {.flip = true});
  const auto all = augmented(original, both);
  for (std::int64_t index = 0; index < 60; ++index) {
    const SampleKey key{.index = index};
    const Pixels image = read<std::uint8_t>(*original, key);
    const auto change = change_between(image, read<std::uint8_t>(*all, key));
    ASSERT_TRUE(change);
    EXPECT_EQ(read<std::uint8_t>(*crops, key), changed(image, {change->down, change->right, false}));
    EXPECT_EQ(read<std::uint8_t>(*flips, key), changed(image, {0, 0, change->is_flipped}));
  }
}

TEST(Augmentation, TakesImagesSmallerThanTheBorder) {
  constexpr ImageShape small{1, 2, 3};
  const auto original = random_images(80, small);
  const auto dataset = augmented(original, both);
  int visible = 0;
  for (std::int64_t index = 0; index < 80; ++index) {
    const Pixels image = read<std::uint8_t>(*original, {.index = index});
    const Pixels found = read<std::uint8_t>(*dataset, {.index = index});
    bool is_possible = false;
    for (std::int64_t down = -4; down <= 4; ++down)
      for (std::int64_t right = -4; right <= 4; ++right)
        for (const bool is_flipped : {false, true})
          is_possible = is_possible || changed(image, {down, right, is_flipped}, small) == found;
    EXPECT_TRUE(is_possible) << index;
    visible += std::any_of(found.begin(), found.end(), [](std::uint8_t byte) { return byte != 0; }) ? 1 : 0;
  }
  EXPECT_GT(visible, 5);
  EXPECT_LT(visible, 75);
}

/// By sample, the images of an epoch that all ranks get together.
std::map<std::int64_t, Pixels> images_of_epoch(std::int64_t epoch, int ranks, int workers, std::uint64_t seed = 1,
                                               std::int64_t first_step = 0) {
  std::map<std::int64_t, Pixels> images;
  const auto dataset = augmented(random_images(53), both);
  for (int rank = 0; rank < ranks; ++rank) {
    Prefetcher prefetcher(
        dataset, DType::float32,
        DistributedSampler({.samples = {53}, .batch = {8}, .rank = {rank}, .ranks = ranks, .seed = seed}),
        {.workers = workers, .bytes = {"images"}});
    prefetcher.start_epoch(epoch, first_step);
    while (const Batch* batch = prefetcher.next()) {
      const auto* bytes = static_cast<const std::uint8_t*>(batch->tensors[0].data);
      for (std::size_t i = 0; i < batch->ids.size(); ++i) {
        const auto* image = bytes + i * static_cast<std::size_t>(shape.elements());
        EXPECT_TRUE(images.emplace(batch->ids[i], Pixels(image, image + shape.elements())).second);
      }
    }
  }
  return images;
}

TEST(Augmentation, IsTheSameOnAnyRanksWorkersAndInAResumedEpoch) {
  const auto expected = images_of_epoch(3, 1, 1);
  ASSERT_EQ(expected.size(), 53U);
  EXPECT_EQ(images_of_epoch(3, 1, 0), expected);
  EXPECT_EQ(images_of_epoch(3, 3, 4), expected);
  const auto rest = images_of_epoch(3, 2, 2, 1, 4);
  EXPECT_EQ(rest.size(), 53U - 4 * 8);
  for (const auto& [id, image] : rest) EXPECT_EQ(image, expected.at(id)) << id;
  EXPECT_NE(images_of_epoch(4, 1, 1), expected);
  EXPECT_NE(images_of_epoch(3, 1, 1, 2), expected);
}

TEST(Augmentation, RefusesTargetsThatWouldNoLongerFit) {
  auto signals = std::make_shared<Signals>(3);
  signals->specs[0].name = "images";
  expect_error([&] { (void)augmented(signals, {.flip = true}); }, ErrorCode::invalid_argument,
               {"\"signals\" has a tensor \"targets\"", "augmented by flip"});
  signals->specs = {signals->specs[2]};
  expect_error([&] { (void)augmented(signals, both); }, ErrorCode::invalid_argument,
               {"\"signals\" has no tensor \"images\" of real numbers", "augmented by crop,flip"});
}

}  // namespace
}  // namespace lockstep::data
