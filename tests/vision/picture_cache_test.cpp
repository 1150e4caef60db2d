// SPDX-License-Identifier: Apache-2.0
#include "vision/cache/picture_cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "platform/machine/available_memory.hpp"
#include "vision/cache/make_picture_cache.hpp"
#include "vision/pattern_source.hpp"

namespace lockstep::vision {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;

DecodedPicture picture_of(std::int64_t sample, int side = 0) {
  const int number = static_cast<int>(sample);
  Image image = side > 0 ? pattern(side, side, 3, number)
                         : pattern(20 + number % 7, 30 + number % 5, 1 + 2 * (number % 2), number);
  return {.image = std::move(image), .original_width = 100 + number, .original_height = 200 + number};
}

bool holds(const PictureCache& cache, std::int64_t sample, int side = 0) {
  DecodedPicture found;
  if (!cache.find(sample, found)) return false;
  const DecodedPicture expected = picture_of(sample, side);
  EXPECT_EQ(found.image.width, expected.image.width);
  EXPECT_EQ(found.image.height, expected.image.height);
  EXPECT_EQ(found.image.channels, expected.image.channels);
  EXPECT_EQ(found.image.pixels, expected.image.pixels) << "sample " << sample;
  EXPECT_EQ(found.original_width, expected.original_width);
  EXPECT_EQ(found.original_height, expected.original_height);
  return true;
}

std::shared_ptr<CacheFile> memory_file(std::int64_t samples, std::int64_t pictures) {
  std::string why_not;
  auto file = make_memory_file(PictureCache::file_bytes(samples, {pictures}), {}, why_not);
  EXPECT_EQ(why_not, "");
  return file;
}

TEST(PictureCache, ReturnsWhatItKeeps) {
  PictureCache cache(memory_file(100, mebibyte), 100);
  for (std::int64_t sample = 0; sample < 100; ++sample) EXPECT_FALSE(holds(cache, sample));
  for (std::int64_t sample = 0; sample < 100; sample += 2) cache.keep(sample, picture_of(sample));
  for (std::int64_t sample = 0; sample < 100; ++sample) EXPECT_EQ(holds(cache, sample), sample % 2 == 0);
  cache.keep(4, picture_of(5));
  EXPECT_TRUE(holds(cache, 4)) << "a sample that is there does not change";
  EXPECT_FALSE(cache.is_full());
}

TEST(PictureCache, SharesPicturesBetweenItsUsers) {
  const auto file = memory_file(100, mebibyte);
  PictureCache one(file, 100);
  PictureCache other(file, 100);
  one.keep(1, picture_of(1));
  other.keep(2, picture_of(2));
  EXPECT_TRUE(holds(one, 2));
  EXPECT_TRUE(holds(other, 1));
  EXPECT_EQ(one.used(), other.used());
}

TEST(PictureCache, KeepsNoMoreThanItsBound) {
  constexpr std::int64_t samples = 1000;
  for (const std::int64_t pictures : {std::int64_t{1}, 4 * mebibyte}) {
    PictureCache cache(memory_file(samples, pictures), samples);
    std::int64_t kept = 0;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      cache.keep(sample, picture_of(sample, 64));
      kept += holds(cache, sample, 64) ? 1 : 0;
    }
    EXPECT_TRUE(cache.is_full());
    EXPECT_LE(cache.used(), cache.capacity());
    EXPECT_LE(kept * 64 * 64 * 3, cache.capacity().value);
    EXPECT_GE(kept * 64 * 64 * 3, pictures > 1 ? pictures * 9 / 10 : 0) << "of its memory is used";
  }
}

TEST(PictureCache, TakesPicturesOfVeryDifferentSizes) {
  PictureCache cache(memory_file(50, 16 * mebibyte), 50);
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    const int side = sample % 10 == 0 ? 700 : 8 + static_cast<int>(sample);
    cache.keep(sample, picture_of(sample, side));
    EXPECT_TRUE(holds(cache, sample, side));
  }
}

TEST(PictureCache, ServesThreadsAtTheSameTime) {
  constexpr std::int64_t samples = 300;
  PictureCache cache(memory_file(samples, 8 * mebibyte), samples);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&cache, thread] {
      for (std::int64_t i = 0; i < samples; ++i) {
        const std::int64_t sample = (i + 50 * thread) % samples;  // they meet at many of them
        if (!holds(cache, sample)) cache.keep(sample, picture_of(sample));
        EXPECT_TRUE(holds(cache, sample));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Runs a function in a child of fork(), and returns its process.
pid_t start_child(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  return child;
}

/// A process that is killed at any moment leaves samples as they were, or complete.
TEST(PictureCache, SamplesOfAProcessThatDiesWhileItKeepsThemAreKeptByOthers) {
  constexpr std::int64_t samples = 4000;
  int found_some = 0;
  for (int round = 0; round < 10; ++round) {
    const auto file = memory_file(samples, 128 * mebibyte);
    const pid_t child = start_child([&file] {
      PictureCache cache(file, samples);
      for (std::int64_t sample = 0; sample < samples; ++sample) cache.keep(sample, picture_of(sample, 64));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + 3 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    PictureCache cache(file, samples);
    int before = 0;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      if (holds(cache, sample, 64)) {
        ++before;
      } else {
        cache.keep(sample, picture_of(sample, 64));
        EXPECT_TRUE(holds(cache, sample, 64));
      }
    }
    found_some += before > 0 && before < samples ? 1 : 0;
  }
  EXPECT_GT(found_some, 0) << "no child was killed in the middle of its work";
}

/// It would fill the block that its parent fills.
TEST(PictureCache, AChildOfForkReadsItButKeepsNothing) {
  PictureCache cache(memory_file(10, mebibyte), 10);
  cache.keep(1, picture_of(1));
  const pid_t child = start_child([&cache] {
    if (!holds(cache, 1)) _exit(1);
    cache.keep(2, picture_of(2));
  });
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(holds(cache, 2));
}

class DiskCache : public testing::Test {
 protected:
  DiskCache() {
    const auto pattern = (std::filesystem::temp_directory_path() / "lockstep-cache-XXXXXX").string();
    std::vector<char> name(pattern.begin(), pattern.end());
    name.push_back('\0');
    folder_ = mkdtemp(name.data());
  }
  ~DiskCache() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::shared_ptr<PictureCache> make(const std::string& contents, Bytes most = {mebibyte},
                                                   std::int64_t samples = 20) const {
    std::string why_not;
    auto cache = make_picture_cache({.kind = CacheKind::disk, .most = most, .folder = folder_, .contents = contents},
                                    samples, {}, why_not);
    EXPECT_EQ(why_not, "");
    return cache;
  }
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.is_regular_file()) found.push_back(entry.path());
    return found;
  }

  std::filesystem::path folder_;
};

TEST_F(DiskCache, OutlivesItsUsers) {
  {
    const auto cache = make("one");
    ASSERT_NE(cache, nullptr);
    for (std::int64_t sample = 0; sample < 10; ++sample) cache->keep(sample, picture_of(sample));
  }
  const auto cache = make("one");
  for (std::int64_t sample = 0; sample < 20; ++sample) EXPECT_EQ(holds(*cache, sample), sample < 10);
  cache->keep(15, picture_of(15));
  EXPECT_TRUE(holds(*make("one"), 15));
  EXPECT_TRUE(holds(*make("one", {0}), 15)) << "without a bound, the file is as it was";
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(files()[0].parent_path().filename().string().substr(0, 10), ".lockstep-")
      << "a folder of classes may hold it, and leaves out what begins with a dot";
}

TEST_F(DiskCache, IsMadeAnewForOtherPictures) {
  make("one")->keep(3, picture_of(3));
  EXPECT_FALSE(holds(*make("two"), 3));
  EXPECT_EQ(files().size(), 2U);
  EXPECT_FALSE(holds(*make("one", {2 * mebibyte}), 3)) << "another bound";
  make("one", {2 * mebibyte})->keep(3, picture_of(3));
  EXPECT_FALSE(holds(*make("one", {2 * mebibyte}, 21), 3)) << "another number of samples";
  EXPECT_EQ(files().size(), 2U);
}

/// After a crash of the machine, words may be on disk whose pictures are not.
TEST_F(DiskCache, LeavesOutWhatIsDamaged) {
  {
    const auto cache = make("one");
    for (std::int64_t sample = 0; sample < 20; ++sample) cache->keep(sample, picture_of(sample));
  }
  const auto file = files().at(0);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(file));
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  for (std::int64_t at = 4096 + 8; at < size; at += 997) {  // behind the first word of the table
    bytes.seekp(at);
    bytes.put('\x5a');
  }
  bytes.close();
  const auto cache = make("one");
  int found = 0;
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    found += holds(*cache, sample) ? 1 : 0;
    cache->keep(sample, picture_of(sample));
    EXPECT_TRUE(holds(*cache, sample));
  }
  EXPECT_LT(found, 20);
}

TEST_F(DiskCache, SaysWhyItCannotBe) {
  std::string why_not;
  const std::filesystem::path nowhere = folder_ / "file";
  std::ofstream(nowhere) << "no folder";
  const auto cache = make_picture_cache(
      {.kind = CacheKind::disk, .most = {mebibyte}, .folder = nowhere, .contents = "one"}, 20, {}, why_not);
  EXPECT_EQ(cache, nullptr);
  EXPECT_NE(why_not.find(nowhere.string()), std::string::npos) << why_not;
  EXPECT_NE(why_not.find("Not a directory"), std::string::npos) << why_not;
}

TEST(MakePictureCache, MakesOneInMemoryOrNone) {
  std::string why_not;
  EXPECT_EQ(make_picture_cache({}, 20, {}, why_not), nullptr);
  EXPECT_EQ(why_not, "");
  const auto cache = make_picture_cache({.kind = CacheKind::ram}, 20, {}, why_not);
  ASSERT_NE(cache, nullptr) << why_not;
  const std::int64_t quarter = std::min(available_memory(), installed_memory()).value / 4;
  EXPECT_GT(cache->capacity().value, quarter / 2) << "other programs may have taken or freed memory meanwhile";
  EXPECT_LT(cache->capacity().value, quarter * 2);
  cache->keep(3, picture_of(3));
  EXPECT_TRUE(holds(*cache, 3));
}

}  // namespace
}  // namespace lockstep::vision
