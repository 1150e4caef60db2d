// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "vision/cache/make_picture_cache.hpp"
#include "vision/pattern_source.hpp"

namespace lockstep::vision {
namespace {

constexpr std::int64_t samples = 96;
constexpr int side = 300;
constexpr std::int64_t copy_bytes = samples * side * side * 3;  // 26 MB

class CacheOfRanks : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }
  [[nodiscard]] const RankSet& node() const { return world_.node_group(); }
  [[nodiscard]] int rank() const { return node().rank().value; }
  [[nodiscard]] NodeRanks ranks() const {
    return {.rank = rank(), .size = node().size(), .gather = [this](const std::string& own) {
              return node().exchange(own);
            }};
  }
  [[nodiscard]] std::int64_t sum(std::int64_t own) const {
    const auto all = all_gather_numbers(node(), own);
    return std::accumulate(all.begin(), all.end(), std::int64_t{0});
  }

  World world_;
};

/// The memory of this process, in which a page that n processes share counts one nth; 0 where it cannot be measured.
std::int64_t proportional_bytes() {
#if defined(__SANITIZE_ADDRESS__)
  return 0;  // the sanitizer keeps what is freed
#endif
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "Pss:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

DecodedPicture picture_of(std::int64_t sample) {
  return {.image = pattern(side, side, 3, static_cast<int>(sample)), .original_width = 1, .original_height = 2};
}

/// Each rank keeps its share of the samples, and then all read all of them.
TEST_F(CacheOfRanks, HoldsOneCopyForAllRanksOfTheNode) {
  std::string why_not;
  const auto cache = make_picture_cache({.kind = CacheKind::ram, .most = {2 * copy_bytes}}, samples, ranks(), why_not);
  ASSERT_NE(cache, nullptr) << why_not;
  DecodedPicture found = picture_of(0);
  const std::int64_t before = sum(proportional_bytes());
  for (std::int64_t sample = rank(); sample < samples; sample += node().size()) cache->keep(sample, picture_of(sample));
  barrier(node());
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    ASSERT_TRUE(cache->find(sample, found)) << sample;
    EXPECT_EQ(found.image.pixels, picture_of(sample).image.pixels);
  }
  barrier(node());
  const std::int64_t after = sum(proportional_bytes());
  barrier(node());
  if (before > 0) {
    EXPECT_GT(after - before, copy_bytes * 9 / 10);
    EXPECT_LT(after - before, copy_bytes * 3 / 2) << "of " << node().size() << " ranks";
  }
  EXPECT_LT(cache->used().value, copy_bytes * 5 / 4);
}

TEST_F(CacheOfRanks, OnDiskIsOneFile) {
  const std::filesystem::path folder = node().exchange(
      (std::filesystem::temp_directory_path() / ("lockstep-ranks-" + std::to_string(getpid()))).string())[0];
  std::filesystem::create_directories(folder);
  std::string why_not;
  {
    const auto cache =
        make_picture_cache({.kind = CacheKind::disk, .most = {2 * copy_bytes}, .folder = folder, .contents = "one"},
                           samples, ranks(), why_not);
    ASSERT_NE(cache, nullptr) << why_not;
    if (rank() == node().size() - 1) cache->keep(7, picture_of(7));
    barrier(node());
    DecodedPicture found;
    EXPECT_TRUE(cache->find(7, found));
    EXPECT_EQ(found.image.pixels, picture_of(7).image.pixels);
  }
  barrier(node());
  if (rank() == 0) std::filesystem::remove_all(folder);
}

/// A rank that cannot take part goes on without; all learn why.
TEST_F(CacheOfRanks, IsLeftOutWhereTheFirstRankCannotMakeIt) {
  std::string why_not;
  const auto cache =
      make_picture_cache({.kind = CacheKind::disk, .most = {1 << 20}, .folder = "/proc/nowhere", .contents = "one"},
                         samples, ranks(), why_not);
  EXPECT_EQ(cache, nullptr);
  EXPECT_NE(why_not.find("local rank 0: the cache of decoded pictures"), std::string::npos) << why_not;
}

}  // namespace
}  // namespace lockstep::vision
