// SPDX-License-Identifier: Apache-2.0
#include "vision/show_batch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <vector>

#include "support/errors.hpp"
#include "vision/pattern_source.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::vision {
namespace {

PictureDataset dataset_of(std::set<std::int64_t> bad = {}) {
  const Size input{.width = 32, .height = 32};
  return {std::make_shared<PatternSource>(5, std::move(bad)),
          {.name = "pattern",
           .input = input,
           .transforms = parse_transforms("letterbox", input),
           .normalization = {.mean = {0, 0, 0}, .deviation = {1, 1, 1}},
           .on_bad_sample = OnBadSample::skip,
           .is_evaluation = true}};
}

std::vector<data::SampleKey> keys(std::int64_t count) {
  std::vector<data::SampleKey> all;
  for (std::int64_t index = 0; index < count; ++index) all.push_back({.index = index});
  return all;
}

TEST(ShowBatch, DrawsWhatTheNetworkSeesEnlargedWithBoxesAndClasses) {
  const PictureDataset dataset = dataset_of();
  const Image sheet = batch_sheet(dataset, keys(5));
  Image seen;
  Annotation annotation;
  dataset.view({.index = 0}, seen, annotation);
  ASSERT_EQ(annotation.boxes.size(), 1U);
  // Cells of 96×96 pixels over a line of text: three columns and two rows.
  EXPECT_GE(sheet.width, 3 * 96);
  EXPECT_GE(sheet.height, 2 * (96 + 16));
  EXPECT_LT(sheet.height, 3 * 96);
  const auto at = [&](int x, int y) {
    const auto* pixel = sheet.row(y).data() + 3 * x;
    return std::vector<std::uint8_t>(pixel, pixel + 3);
  };
  // The corner of the sheet is a gap or the first cell; the gray of the letterbox shows where the cell begins.
  int begin = 0;
  while (begin < 8 && at(begin, begin) != std::vector<std::uint8_t>{114, 114, 114}) ++begin;
  ASSERT_LT(begin, 8);
  int equal = 0;
  for (int y = 0; y < 32; ++y)
    for (int x = 0; x < 32; ++x)
      equal += at(begin + 3 * x + 1, begin + 3 * y + 1) ==
                       std::vector<std::uint8_t>(seen.row(y).data() + 3 * x, seen.row(y).data() + 3 * x + 3)
                   ? 1
                   : 0;
  EXPECT_GT(equal, 32 * 32 / 2) << "the rest is below the box and its label";
  EXPECT_LT(equal, 32 * 32) << "the box is drawn";
}

TEST(ShowBatch, ShowsWhichSamplesAreLeftOut) {
  EXPECT_NE(batch_sheet(dataset_of({0}), keys(1)).pixels, batch_sheet(dataset_of(), keys(1)).pixels);
}

TEST(ShowBatch, EnlargesAPictureUntilItsCaptionFits) {
  Image picture;
  picture.resize(32, 24, 1);
  std::iota(picture.pixels.begin(), picture.pixels.end(), std::uint8_t{0});
  const Image shown = with_caption(picture, {.text = "automobile 99.9 %", .color = {0, 130, 200}});  // of 136 pixels
  ASSERT_EQ(shown.channels, 3);
  ASSERT_EQ(shown.width, 5 * 32);
  ASSERT_GE(shown.height, 5 * 24 + 16);
  for (int y = 0; y < 5 * 24; ++y)
    for (int x = 0; x < 3 * 5 * 32; ++x) ASSERT_EQ(shown.row(y)[x], picture.row(y / 5)[x / 15]);
  EXPECT_EQ(with_caption(picture, {.text = "cat"}).width, 4 * 32) << "96 pixels on the shorter side";
  picture.resize(1, 3000, 3);
  EXPECT_EQ(with_caption(picture, {.text = "cat"}).width, 16);
}

TEST(ShowBatch, WritesAPng) {
  const auto file = std::filesystem::temp_directory_path() / ("lockstep-sheet-" + std::to_string(getpid()) + ".png");
  const Image sheet = batch_sheet(dataset_of(), keys(4));
  write_png(sheet, file);
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  Image read;
  decode(std::as_bytes(std::span(bytes)), {}, read);
  EXPECT_EQ(read.pixels, sheet.pixels);
  std::filesystem::remove(file);
  expect_error([&] { write_png(sheet, "/nowhere/sheet.png"); }, ErrorCode::io, {"/nowhere/sheet.png", "No such file"});
}

}  // namespace
}  // namespace lockstep::vision
