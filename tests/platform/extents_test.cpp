// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <random>

#include "platform/node_memory/node_file.hpp"

namespace lockstep {
namespace {

TEST(Extents, GivesTheFirstPartThatIsLongEnough) {
  Extents extents(Bytes{100});
  EXPECT_EQ(extents.take(Bytes{30}, 1), 0);
  EXPECT_EQ(extents.take(Bytes{30}, 1), 30);
  EXPECT_EQ(extents.take(Bytes{30}, 1), 60);
  extents.give_back(30);
  EXPECT_EQ(extents.take(Bytes{31}, 1), std::nullopt);
  EXPECT_EQ(extents.take(Bytes{10}, 1), 30);
  EXPECT_EQ(extents.take(Bytes{10}, 1), 40);
  EXPECT_EQ(extents.taken().value, 80);
}

TEST(Extents, AlignsAndUsesTheGap) {
  Extents extents(Bytes{128});
  EXPECT_EQ(extents.take(Bytes{1}, 1), 0);
  EXPECT_EQ(extents.take(Bytes{64}, 64), 64);
  EXPECT_EQ(extents.take(Bytes{63}, 1), 1);
  EXPECT_EQ(extents.take(Bytes{1}, 1), std::nullopt);
}

TEST(Extents, RefusesMoreThanCanBeCounted) {
  Extents extents(Bytes{100});
  EXPECT_EQ(extents.take(Bytes{10}, 1), 0);
  EXPECT_EQ(extents.take(Bytes{std::numeric_limits<std::int64_t>::max()}, 64), std::nullopt);
  EXPECT_EQ(extents.taken().value, 10);
}

TEST(Extents, RandomPartsNeverOverlapAndAllCanBeGivenBack) {
  constexpr std::int64_t whole = 10'000;
  Extents extents(Bytes{whole});
  std::mt19937 random(1);
  std::map<std::int64_t, std::int64_t> taken;  // offset → bytes
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t bytes = 1 + random() % 600;
    const std::int64_t alignment = std::int64_t{1} << random() % 8;
    if (const auto offset = extents.take(Bytes{bytes}, alignment)) {
      EXPECT_EQ(*offset % alignment, 0);
      const auto [at, is_new] = taken.emplace(*offset, bytes);
      ASSERT_TRUE(is_new);
      const std::int64_t end_before = at == taken.begin() ? 0 : std::prev(at)->first + std::prev(at)->second;
      ASSERT_LE(end_before, *offset);
      ASSERT_LE(*offset + bytes, std::next(at) == taken.end() ? whole : std::next(at)->first);
    } else {
      ASSERT_FALSE(taken.empty());
      const auto victim = std::next(taken.begin(), random() % taken.size());
      extents.give_back(victim->first);
      taken.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : taken) extents.give_back(offset);
  EXPECT_EQ(extents.taken().value, 0);
  EXPECT_EQ(extents.take(Bytes{whole}, 1), 0);
}

}  // namespace
}  // namespace lockstep
