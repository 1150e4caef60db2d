// SPDX-License-Identifier: Apache-2.0
#include "vision/source/bad_samples.hpp"

#include <set>
#include <thread>

#include "support/errors.hpp"
#include "vision/source/file_source.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

FileSource source_of(std::int64_t size) {
  std::vector<FileSample> samples;
  for (std::int64_t i = 0; i < size; ++i) samples.push_back({.path = std::to_string(i) + ".jpg"});
  return {"folder", "/data", {}, std::move(samples)};
}

/// Loads samples unless they are bad, and remembers which it was asked for.
struct Loader {
  std::set<std::int64_t> bad;
  std::vector<std::int64_t> asked;

  void operator()(std::int64_t sample) {
    asked.push_back(sample);
    if (bad.contains(sample)) throw Error(ErrorCode::corrupt, "sample " + std::to_string(sample) + " is damaged");
  }
};

TEST(BadSamples, AreReplacedByTheNextGoodOneOfWhichTheFirstFollowsTheLast) {
  const FileSource source = source_of(5);
  BadSamples bad("training");
  Loader loader{.bad = {2, 3, 4}};
  EXPECT_EQ(load_next_good(source, 1, bad, std::ref(loader)), 1);
  EXPECT_EQ(bad.count(), 0);
  EXPECT_EQ(load_next_good(source, 2, bad, std::ref(loader)), 0);
  EXPECT_EQ(loader.asked, (std::vector<std::int64_t>{1, 2, 3, 4, 0}));
  EXPECT_EQ(bad.text(),
            "training\t2\t/data/2.jpg\tsample 2 is damaged\ntraining\t3\t/data/3.jpg\tsample 3 is damaged\n"
            "training\t4\t/data/4.jpg\tsample 4 is damaged\n");
  loader.asked.clear();
  EXPECT_EQ(load_next_good(source, 3, bad, std::ref(loader)), 0);
  EXPECT_EQ(loader.asked, std::vector<std::int64_t>{0}) << "known ones are not loaded again";
}

TEST(BadSamples, AllOfThemAreAnError) {
  const FileSource source = source_of(3);
  BadSamples bad("training");
  Loader loader{.bad = {0, 1, 2}};
  expect_error([&] { load_next_good(source, 1, bad, std::ref(loader)); }, ErrorCode::corrupt,
               {"none of the 3 samples is good", "sample 0 is damaged"});
  expect_error([&] { load_next_good(source, 1, bad, std::ref(loader)); }, ErrorCode::corrupt,
               {"none of the 3 samples"});
}

TEST(BadSamples, OnlyContentsDecide) {
  const FileSource source = source_of(3);
  BadSamples bad("training");
  for (const ErrorCode code : {ErrorCode::io, ErrorCode::unsupported, ErrorCode::invalid_argument}) {
    const auto fail = [&](std::int64_t) { throw Error(code, "this passes"); };
    expect_error([&] { load_next_good(source, 1, bad, fail); }, code, {"this passes"});
  }
  EXPECT_EQ(bad.count(), 0);
}

TEST(BadSamples, ListsOfRanksAreUnited) {
  const std::vector<std::string> texts = {"training\t10\ta\tx\ntraining\t9\tb\ty\n", "",
                                          "validation\t1\tc\tz\ntraining\t10\tother/a\tx\n", "training\t100\td\tw"};
  EXPECT_EQ(united(texts), "training\t9\tb\ty\ntraining\t10\ta\tx\ntraining\t100\td\tw\nvalidation\t1\tc\tz\n");
}

TEST(BadSamples, PlacesStayOnTheirLine) {
  BadSamples bad("training");
  bad.add(0, "a\nb\t.jpg", "is\ndamaged");
  EXPECT_EQ(bad.text(), "training\t0\ta?b?.jpg\tis?damaged\n");
}

TEST(BadSamples, MayBeAddedByManyThreads) {
  const FileSource source = source_of(1000);
  BadSamples bad("training");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (std::int64_t i = 0; i < 1000; ++i) {
        const auto load = [](std::int64_t sample) {
          if (sample % 3 == 0) throw Error(ErrorCode::corrupt, "is damaged");
        };
        const std::int64_t next = i == 999 ? 1 : i + 1;  // 999 and 0 are bad
        EXPECT_EQ(load_next_good(source, i, bad, load), i % 3 == 0 ? next : i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad.count(), 334);
}

}  // namespace
}  // namespace lockstep::vision
