// SPDX-License-Identifier: Apache-2.0
#include "vision/synthetic/synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

struct Kind {
  const char* name;
  std::function<SourcePair(const SyntheticOptions&)> draw;
  std::size_t bytes;
  std::uint64_t fingerprint;  ///< of the first 50 images with seed 1; the same on every machine

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

/// Returns the bytes of the first pictures, channel by channel.
std::string bytes_of(const Source& source, std::int64_t count) {
  std::string all;
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    source.read(i, bytes);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

std::uint64_t hash_of(const std::string& bytes) {
  Fnv1a hash;
  hash.add(bytes);
  return hash.value();
}

/// Returns the number of different pictures of both parts.
std::size_t different(const SourcePair& pair) {
  std::set<std::uint64_t> seen;
  std::vector<std::byte> bytes;
  for (const Source* part : {pair.train.get(), pair.val.get()}) {
    for (std::int64_t i = 0; i < part->size(); ++i) {
      part->read(i, bytes);
      seen.insert(hash_of(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    }
  }
  return seen.size();
}

class SyntheticTest : public testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] static SourcePair draw(std::int64_t train, std::int64_t test, std::uint64_t seed = 1) {
    return GetParam().draw({.seed = seed, .train = {train}, .test = {test}});
  }
};

TEST_P(SyntheticTest, HasTheAnnouncedForm) {
  const SourcePair pair = draw(200, 100);
  for (const Source* part : {pair.train.get(), pair.val.get()}) {
    EXPECT_EQ(part->format(), GetParam().name);
    EXPECT_EQ(part->class_names().size(), 10U);
    EXPECT_EQ(bytes_of(*part, 1).size(), GetParam().bytes);
  }
  EXPECT_EQ(pair.train->size(), 200);
  EXPECT_EQ(pair.val->size(), 100);
}

TEST_P(SyntheticTest, BytesDependOnTheSeedAlone) {
  const std::string bytes = bytes_of(*draw(50, 50).train, 50);
  EXPECT_EQ(bytes_of(*draw(50, 50).train, 50), bytes);
  EXPECT_NE(bytes_of(*draw(50, 50, 2).train, 50), bytes);
  EXPECT_EQ(hash_of(bytes), GetParam().fingerprint);
}

TEST_P(SyntheticTest, ALargerOneBeginsWithTheSmallerOne) {
  const SourcePair small = draw(20, 10);
  const SourcePair large = draw(60, 30);
  EXPECT_EQ(bytes_of(*small.train, 20), bytes_of(*large.train, 20));
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(small.val->annotation(i).label, large.val->annotation(i).label);
}

TEST_P(SyntheticTest, NoImageIsDrawnTwice) { EXPECT_EQ(different(GetParam().draw({})), 14'000U); }

TEST_P(SyntheticTest, ClassesAreAboutEquallyFrequent) {
  const SourcePair pair = GetParam().draw({});
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < pair.train->size(); ++i)
    ++counts.at(static_cast<std::size_t>(pair.train->annotation(i).label));
  for (const int count : counts) EXPECT_NEAR(count, 1200, 165);  // five standard deviations
}

TEST_P(SyntheticTest, RefusesToDrawNothing) {
  EXPECT_THROW((void)draw(0, 10), Error);
  EXPECT_THROW((void)draw(10, -1), Error);
}

TEST(SyntheticImageNet, HasAThousandClassesOfLargeImages) {
  const SourcePair pair = synthetic_imagenet({.train = {30}, .test = {10}});
  EXPECT_EQ(pair.train->format(), "synthetic-imagenet");
  EXPECT_EQ(bytes_of(*pair.train, 1).size(), 3U * 224 * 224);
  EXPECT_EQ(pair.train->class_names().size(), 1000U);
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < 30; ++i) largest = std::max(largest, pair.train->annotation(i).label);
  EXPECT_GT(largest, 100);
  EXPECT_EQ(different(pair), 40U);
  EXPECT_EQ(hash_of(bytes_of(*pair.train, 1)), 2195324890332468435U);  // the same on every machine
}

INSTANTIATE_TEST_SUITE_P(Synthetic, SyntheticTest,
                         testing::Values(Kind{"synthetic-digits", synthetic_digits, 28 * 28, 17125338965419238022U},
                                         Kind{"synthetic-cifar", synthetic_cifar, 3 * 32 * 32, 17295444300577527308U}),
                         [](const auto& kind) {
                           return std::string(kind.param.name) == "synthetic-digits" ? "Digits" : "Cifar";
                         });

}  // namespace
}  // namespace lockstep::vision
