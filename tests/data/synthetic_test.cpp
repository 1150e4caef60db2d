// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "data/images_pair.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

struct Kind {
  const char* name;
  std::function<ImagesPair(const SyntheticOptions&)> draw;
  ImageShape shape;
  std::uint64_t fingerprint;  ///< of the first 50 images with seed 1; the same on every machine

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

std::uint64_t hash_of(std::span<const std::uint8_t> image) {
  Fnv1a hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(image.data()), image.size()));
  return hash.value();
}

class SyntheticTest : public testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] static ImagesPair draw(std::int64_t train, std::int64_t test, std::uint64_t seed = 1) {
    return GetParam().draw({.seed = seed, .train = {train}, .test = {test}});
  }
};

TEST_P(SyntheticTest, HasTheAnnouncedForm) {
  const ImagesPair pair = draw(200, 100);
  for (const Images* part : {&pair.train, &pair.test}) {
    EXPECT_EQ(part->name, GetParam().name);
    EXPECT_EQ(part->shape, GetParam().shape);
    EXPECT_EQ(part->classes, 10);
    EXPECT_EQ(part->images.size(), part->labels.size() * static_cast<std::size_t>(part->shape.elements()));
  }
  EXPECT_EQ(pair.train.size(), 200);
  EXPECT_EQ(pair.test.size(), 100);
}

TEST_P(SyntheticTest, BytesDependOnTheSeedAlone) {
  const ImagesPair pair = draw(50, 50);
  EXPECT_EQ(draw(50, 50).train.images, pair.train.images);
  EXPECT_NE(draw(50, 50, 2).train.images, pair.train.images);
  EXPECT_EQ(hash_of(pair.train.images), GetParam().fingerprint);
}

TEST_P(SyntheticTest, ALargerOneBeginsWithTheSmallerOne) {
  const ImagesPair small = draw(20, 10);
  const ImagesPair large = draw(60, 30);
  EXPECT_TRUE(std::equal(small.train.images.begin(), small.train.images.end(), large.train.images.begin()));
  EXPECT_TRUE(std::equal(small.test.labels.begin(), small.test.labels.end(), large.test.labels.begin()));
}

TEST_P(SyntheticTest, NoImageIsDrawnTwice) {
  const ImagesPair pair = GetParam().draw({});
  std::set<std::uint64_t> seen;
  for (const Images* part : {&pair.train, &pair.test})
    for (std::int64_t i = 0; i < part->size(); ++i) seen.insert(hash_of(part->image(i)));
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(pair.train.size() + pair.test.size()));
}

TEST_P(SyntheticTest, ClassesAreAboutEquallyFrequent) {
  const ImagesPair pair = GetParam().draw({});
  std::vector<int> counts(10);
  for (const std::int32_t label : pair.train.labels) ++counts.at(static_cast<std::size_t>(label));
  for (const int count : counts) EXPECT_NEAR(count, 1200, 165);  // five standard deviations
}

TEST_P(SyntheticTest, RefusesToDrawNothing) {
  EXPECT_THROW((void)draw(0, 10), Error);
  EXPECT_THROW((void)draw(10, -1), Error);
}

TEST(SyntheticImageNet, HasAThousandClassesOfLargeImages) {
  const ImagesPair pair = synthetic_imagenet({.train = {30}, .test = {10}});
  EXPECT_EQ(pair.train.name, "synthetic-imagenet");
  EXPECT_EQ(pair.train.shape, (ImageShape{3, 224, 224}));
  EXPECT_EQ(pair.train.classes, 1000);
  EXPECT_GT(*std::max_element(pair.train.labels.begin(), pair.train.labels.end()), 100);
  std::set<std::uint64_t> seen;
  for (const Images* part : {&pair.train, &pair.test})
    for (std::int64_t i = 0; i < part->size(); ++i) seen.insert(hash_of(part->image(i)));
  EXPECT_EQ(seen.size(), 40U);
  EXPECT_EQ(hash_of(pair.train.image(0)), 2195324890332468435U);  // the same on every machine
}

INSTANTIATE_TEST_SUITE_P(Synthetic, SyntheticTest,
                         testing::Values(Kind{"synthetic-digits", synthetic_digits, {1, 28, 28}, 17125338965419238022U},
                                         Kind{"synthetic-cifar", synthetic_cifar, {3, 32, 32}, 17295444300577527308U}),
                         [](const auto& kind) {
                           return std::string(kind.param.name) == "synthetic-digits" ? "Digits" : "Cifar";
                         });

}  // namespace
}  // namespace lockstep::data
