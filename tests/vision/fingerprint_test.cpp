// SPDX-License-Identifier: Apache-2.0
#include "vision/source/fingerprint.hpp"

#include <barrier>
#include <map>
#include <thread>

#include "support/errors.hpp"
#include "vision/source/file_source.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

using Terms = std::map<std::string, std::uint64_t>;

/// Samples whose bytes are in memory, which counts how often they are read.
class TestSource final : public Source {
 public:
  struct Sample {
    std::string path;
    std::string bytes;
    Annotation annotation;
  };

  explicit TestSource(std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i)
      samples.push_back({std::to_string(i) + ".jpg", "bytes " + std::to_string(i), {.label = static_cast<int>(i % 2)}});
  }
  [[nodiscard]] std::string format() const override { return "test"; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(samples); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names; }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override { return at(sample).annotation; }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return folder + at(sample).path; }
  [[nodiscard]] std::string relative_place(std::int64_t sample) const override { return at(sample).path; }
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t sample) const override {
    return is_in_memory ? -1 : std::ssize(at(sample).bytes);
  }
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override {
    ++reads;
    const auto stored = std::as_bytes(std::span(at(sample).bytes));
    bytes.assign(stored.begin(), stored.end());
  }
  [[nodiscard]] const Sample& at(std::int64_t sample) const { return samples[static_cast<std::size_t>(sample)]; }

  std::vector<Sample> samples;
  Names names{"cat", "dog"};
  std::string folder = "/here/";
  bool is_in_memory = false;
  mutable std::int64_t reads = 0;
};

/// The names of the terms in which two sources differ.
Names differing_terms(const Source& a, const Source& b, bool all = false) {
  const SourceFingerprint first = fingerprint(a, all);
  const SourceFingerprint second = fingerprint(b, all);
  Names names;
  for (std::size_t i = 0; i < first.terms.size(); ++i)
    if (first.terms[i] != second.terms[i]) names.push_back(first.terms[i].first);
  return names;
}

TEST(SourceFingerprint, NamesWhatDiffers) {
  const TestSource usual(100);
  TestSource other(100);
  other.folder = "/there/";
  EXPECT_EQ(differing_terms(usual, other), Names{}) << "the folder of a copy does not matter";
  other.samples[7].path = "seven.jpg";
  EXPECT_EQ(differing_terms(usual, other), Names{"files"});
  other = TestSource(100);
  std::swap(other.samples[7].path, other.samples[8].path);
  EXPECT_EQ(differing_terms(usual, other), Names{"files"}) << "the order counts";
  other = TestSource(100);
  other.samples[0].bytes += "x";
  EXPECT_EQ(differing_terms(usual, other), (Names{"sizes", "stored bytes of 64 samples"}));
  other = TestSource(100);
  other.samples[1].annotation.boxes = {{.label = 1, .right = 2, .bottom = 2}};
  EXPECT_EQ(differing_terms(usual, other), Names{"annotations"});
  TestSource with_box(100);
  with_box.samples[1].annotation.boxes = {{.label = 1, .right = 2, .bottom = 2}};
  const auto expect_difference = [&](const auto& change) {
    other = with_box;
    change(other.samples[1].annotation);
    EXPECT_EQ(differing_terms(with_box, other), Names{"annotations"});
  };
  expect_difference([](Annotation& annotation) { annotation.boxes[0].is_crowd = true; });
  expect_difference([](Annotation& annotation) { annotation.boxes[0].is_difficult = true; });
  expect_difference([](Annotation& annotation) { annotation.boxes[0].area = 4; });
  expect_difference([](Annotation& annotation) { annotation.boxes[0].bottom = 2.0000002F; });
  expect_difference([](Annotation& annotation) { annotation.image_id = 1; });
  other = TestSource(100);
  other.names[1] = "wolf";
  EXPECT_EQ(differing_terms(usual, other), Names{"class names"});
}

TEST(SourceFingerprint, ReadsSixtyFourSamplesUnlessAllAreAskedFor) {
  const TestSource usual(1000);
  TestSource other(1000);
  other.samples[1].bytes[0] = 'B';  // sample 1 is none of the 64
  EXPECT_EQ(differing_terms(usual, other), Names{});
  EXPECT_EQ(usual.reads, 64);
  EXPECT_EQ(differing_terms(usual, other, true), Names{"stored bytes of 1000 samples"});
  EXPECT_EQ(usual.reads, 1064);
  TestSource in_memory(1000);
  in_memory.is_in_memory = true;
  EXPECT_EQ(fingerprint(in_memory, false).contents.size(), 1000U);
}

TEST(SourceFingerprint, CategoriesCountAsNames) {
  const auto with_ids = [](std::vector<std::int64_t> ids) {
    return FileSource("coco", "/nowhere", {"cat", "dog"}, {}, std::move(ids));
  };
  EXPECT_EQ(differing_terms(with_ids({1, 2}), with_ids({1, 2})), Names{});
  EXPECT_EQ(differing_terms(with_ids({1, 2}), with_ids({1, 3})), Names{"class names"});
}

TEST(SourceFingerprint, NamesAFileThatCannotBeRead) {
  const FileSource source("folder", "/nowhere", {"cat"}, {{.path = "a.jpg", .bytes = 1}});
  expect_error([&] { (void)fingerprint(source, false); }, ErrorCode::io, {"/nowhere/a.jpg does not exist"});
}

/// Runs the search on ranks that are threads. @param most_bytes  becomes the largest text that was exchanged
std::vector<std::optional<SampleDifference>> search(const std::vector<TestSource>& sources, bool all,
                                                    std::size_t& exchanges, std::size_t& most_bytes) {
  const std::size_t size = sources.size();
  std::barrier together(static_cast<std::ptrdiff_t>(size));
  std::vector<std::string> texts(size);
  std::vector<std::optional<SampleDifference>> found(size);
  exchanges = most_bytes = 0;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const auto exchange = [&](const std::string& mine) {
        texts[rank] = mine;
        together.arrive_and_wait();
        std::vector<std::string> result = texts;
        if (rank == 0) ++exchanges;
        if (rank == 0) most_bytes = std::max(most_bytes, mine.size());
        together.arrive_and_wait();
        return result;
      };
      found[rank] = first_difference(sources[rank], fingerprint(sources[rank], all), exchange);
    });
  for (std::thread& thread : threads) thread.join();
  return found;
}

std::string text_for(const std::vector<TestSource>& sources, bool all = false) {
  std::size_t exchanges = 0;
  std::size_t most_bytes = 0;
  const auto found = search(sources, all, exchanges, most_bytes);
  EXPECT_LE(most_bytes, 2048U);
  EXPECT_LE(exchanges, 10U);
  for (const auto& difference : found) EXPECT_EQ(difference.has_value(), found.front().has_value());
  if (!found.front()) return "";
  const auto host_of = [](int rank) { return "host" + std::to_string(rank / 2); };
  for (const auto& difference : found) EXPECT_EQ(text_of(*difference, host_of), text_of(*found.front(), host_of));
  return text_of(*found.front(), host_of);
}

TEST(FirstDifference, NamesTheOddRankAndTheFirstFile) {
  for (const std::int64_t size : {1, 2, 255, 256, 257, 70'000}) {
    for (const std::int64_t position : {std::int64_t{0}, size / 3, size - 1}) {
      std::vector<TestSource> sources(4, TestSource(size));
      sources[3].samples[static_cast<std::size_t>(position)].path = "odd.jpg";
      sources[3].samples[static_cast<std::size_t>(size - 1)].annotation.label = 1;
      const std::string text = text_for(sources);
      EXPECT_TRUE(text.starts_with("sample " + std::to_string(position) +
                                   " is the first that differs: rank 3 on host1 has odd.jpg ("))
          << text;
      EXPECT_NE(text.find("the other 3 have " + std::to_string(position) + ".jpg ("), std::string::npos) << text;
    }
  }
}

TEST(FirstDifference, NamesAFileOfWhichARankHasOtherBytes) {
  std::vector<TestSource> sources(3, TestSource(1000));
  sources[1].samples[500].bytes[0] = 'B';
  const std::string text = text_for(sources, true);
  EXPECT_TRUE(
      text.starts_with("sample 500 is the first that differs: rank 1 on host0 has 500.jpg (9 bytes, class cat, "
                       "contents with hash "))
      << text;
}

TEST(FirstDifference, NamesTheFirstSampleThatARankLacks) {
  std::vector<TestSource> sources(3, TestSource(1000));
  sources[2].samples.pop_back();
  EXPECT_TRUE(
      text_for(sources).starts_with("sample 999 is the first that differs: rank 2 on host1 has no such sample, "
                                    "the other 2 have 999.jpg (9 bytes, class dog"));
  sources[2] = TestSource(0);
  EXPECT_TRUE(text_for(sources).starts_with("sample 0 is the first that differs: rank 2 on host1 has no such sample"));
}

TEST(FirstDifference, WithoutMajorityAllRanksAreNamed) {
  std::vector<TestSource> sources(2, TestSource(10));
  sources[1].samples[4].annotation.label = 1;
  const std::string text = text_for(sources);
  EXPECT_NE(text.find("rank 0 on host0 has 4.jpg (7 bytes, class cat"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 on host0 has 4.jpg (7 bytes, class dog"), std::string::npos) << text;
}

TEST(FirstDifference, NothingWhereAllSamplesAreTheSame) {
  std::vector<TestSource> sources(3, TestSource(1000));
  sources[2].names[0] = "lion";
  EXPECT_EQ(text_for(sources), "");
}

}  // namespace
}  // namespace lockstep::vision
