// SPDX-License-Identifier: Apache-2.0
// Tests the targets of models, and the drawn data sets that they are made for: boxes, masks, words.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "support/errors.hpp"
#include "workloads/small_sets.hpp"

namespace lockstep::workloads {
namespace {

constexpr std::int64_t drawn_samples = 100;

/// One tensor of the first samples; either `reals` or `integers` is empty.
struct ReadTensor {
  std::vector<float> reals;
  std::vector<std::int32_t> integers;
};

std::vector<ReadTensor> read_first(const data::Dataset& data, std::int64_t count = drawn_samples) {
  std::vector<ReadTensor> tensors;
  for (const TensorSpec& spec : data.tensors()) {
    ReadTensor& tensor = tensors.emplace_back();
    const auto elements = static_cast<std::size_t>(count * spec.elements());
    if (spec.content == Content::real) tensor.reals.assign(elements, 77);
    if (spec.content == Content::integer) tensor.integers.assign(elements, 77);
  }
  std::vector<Buffer> memory;
  for (ReadTensor& tensor : tensors)
    memory.push_back(tensor.integers.empty() ? Buffer(std::span(tensor.reals)) : Buffer(std::span(tensor.integers)));
  for (std::int64_t index = 0; index < count; ++index) {
    std::vector<Buffer> slots;
    for (const Buffer& all : memory)
      slots.push_back(slice(all, {index * (all.count.value / count)}, {all.count.value / count}));
    data.read({.index = index}, slots);
  }
  return tensors;
}

std::uint64_t hash_of(const std::vector<ReadTensor>& tensors) {
  Fnv1a hash;
  for (const ReadTensor& tensor : tensors) {
    hash.add(std::string_view(reinterpret_cast<const char*>(tensor.reals.data()), 4 * tensor.reals.size()));
    hash.add(std::string_view(reinterpret_cast<const char*>(tensor.integers.data()), 4 * tensor.integers.size()));
  }
  return hash.value();
}

struct DrawnKind {
  const char* name;
  data::DatasetPair (*draw)(const vision::SyntheticOptions&);
  std::uint64_t fingerprint;  ///< of the first 20 of 50 samples with seed 1; the same on every machine

  friend void PrintTo(const DrawnKind& kind, std::ostream* out) { *out << kind.name; }
};

class DrawnTest : public testing::TestWithParam<DrawnKind> {};

TEST_P(DrawnTest, DependsOnTheSeedAlone) {
  const auto drawn = [](std::uint64_t seed) {
    return hash_of(read_first(*GetParam().draw({.seed = seed, .train = {50}, .test = {10}}).train, 20));
  };
  EXPECT_EQ(drawn(1), GetParam().fingerprint);
  EXPECT_NE(drawn(2), drawn(1));
}

TEST_P(DrawnTest, PartsDifferAndHaveTheirSizes) {
  const data::DatasetPair pair = GetParam().draw({.train = {30}, .test = {20}});
  EXPECT_EQ(pair.train->name(), GetParam().name);
  EXPECT_EQ(pair.train->size(), 30);
  EXPECT_EQ(pair.test->size(), 20);
  EXPECT_NE(read_first(*pair.train, 1).front().reals, read_first(*pair.test, 1).front().reals);
}

TEST_P(DrawnTest, IsReadInEitherPrecisionAndAnyOrder) {
  const data::DatasetPair pair = GetParam().draw({.train = {5}, .test = {5}});
  const std::vector<ReadTensor> forward = read_first(*pair.train, 5);
  const std::vector<TensorSpec> specs = pair.train->tensors();
  std::vector<std::vector<double>> reals;
  std::vector<std::vector<std::int32_t>> integers;
  std::vector<Buffer> memory;
  for (const TensorSpec& spec : specs) {
    reals.emplace_back(static_cast<std::size_t>(spec.elements()));
    integers.emplace_back(static_cast<std::size_t>(spec.elements()));
  }
  for (std::size_t i = 0; i < specs.size(); ++i)
    memory.push_back(specs[i].content == Content::real ? Buffer(std::span(reals[i])) : Buffer(std::span(integers[i])));
  pair.train->read({.index = 3}, memory);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::int64_t e = 0; e < specs[i].elements(); ++e) {
      const auto at = static_cast<std::size_t>(3 * specs[i].elements() + e);
      const auto alone = static_cast<std::size_t>(e);
      if (specs[i].content == Content::real) {
        ASSERT_FLOAT_EQ(forward[i].reals[at], static_cast<float>(reals[i][alone]));
      } else {
        ASSERT_EQ(forward[i].integers[at], integers[i][alone]);
      }
    }
  }
}

TEST_P(DrawnTest, RefusesToDrawNothing) {
  expect_error([] { (void)GetParam().draw({.train = {0}, .test = {1}}); }, ErrorCode::invalid_argument,
               {"with 0 images"});
}

INSTANTIATE_TEST_SUITE_P(Drawn, DrawnTest,
                         testing::Values(DrawnKind{"synthetic-boxes", boxes_set, 15640740011084442742U},
                                         DrawnKind{"synthetic-masks", masks_set, 6823056602786462389U},
                                         DrawnKind{"synthetic-words", words_set, 7453813389623733998U}),
                         [](const auto& kind) { return std::string(kind.param.name).substr(10); });

constexpr std::int64_t all_cells = 189;
constexpr int edge = 48;  // of an image

/// A cell's number, and the scale and the position for which it stands.
struct Cell {
  int stride;
  double x;  ///< of its center, in cells
  double y;
};

Cell cell_of(std::int64_t number) {
  for (const int stride : {4, 8, 16}) {
    const std::int64_t row = edge / stride;
    const std::int64_t line = number / row;
    if (line < row) return {stride, static_cast<double>(number % row) + 0.5, static_cast<double>(line) + 0.5};
    number -= row * row;
  }
  return {};
}

struct PixelBox {
  int left, top, right, bottom;
};

PixelBox box_of(const ReadTensor& boxes, std::int64_t sample, std::int64_t number) {
  const Cell cell = cell_of(number);
  const auto pixels = [&](std::int64_t side, double middle) {
    const float relative = boxes.reals[static_cast<std::size_t>((4 * sample + side) * all_cells + number)];
    return static_cast<int>(std::lround(cell.stride * (middle + static_cast<double>(relative))));
  };
  return {pixels(0, cell.x), pixels(1, cell.y), pixels(2, cell.x), pixels(3, cell.y)};
}

/// Returns whether the mask of a sample has that label anywhere in a box.
bool shows(const ReadTensor& labels, std::int64_t sample, const PixelBox& box, std::int32_t label) {
  for (int y = box.top; y < box.bottom; ++y) {
    for (int x = box.left; x < box.right; ++x) {
      if (labels.integers[static_cast<std::size_t>((sample * edge + y) * edge + x)] == label) return true;
    }
  }
  return false;
}

TEST(Boxes, EndWhereTheirShapesDo) {
  const vision::SyntheticOptions options{.train = {drawn_samples}, .test = {1}};
  const std::vector<ReadTensor> boxes = read_first(*boxes_set(options).train);
  const std::vector<ReadTensor> masks = read_first(*masks_set(options).train);
  ASSERT_EQ(boxes[0].reals, masks[0].reals) << "they are to be of the same images";
  std::array<int, 3> of_scale{};
  for (std::int64_t i = 0; i < drawn_samples * all_cells; ++i) {
    const std::int32_t label = boxes[1].integers[static_cast<std::size_t>(i)];
    EXPECT_EQ(boxes[2].reals[static_cast<std::size_t>(i)], label == -100 ? 0 : 1);
    const PixelBox box = box_of(boxes[3], i / all_cells, i % all_cells);
    const int stride = cell_of(i % all_cells).stride;
    if (label == -100) {
      EXPECT_EQ(box.right, box.left);
      continue;
    }
    ++of_scale.at(stride == 4 ? 0 : stride == 8 ? 1 : 2);
    const PixelBox sides[] = {{box.left, box.top, box.left + 1, box.bottom},
                              {box.right - 1, box.top, box.right, box.bottom},
                              {box.left, box.top, box.right, box.top + 1},
                              {box.left, box.bottom - 1, box.right, box.bottom}};
    for (const PixelBox& side : sides) EXPECT_TRUE(shows(masks[1], i / all_cells, side, label + 1)) << i;
    if (stride < 16) {
      EXPECT_LT(std::max(box.right - box.left, box.bottom - box.top), 3 * stride);
    }
  }
  for (const int objects : of_scale) EXPECT_GT(objects, drawn_samples / 5);
}

/// Returns the labels of all cells.
ReadTensor labels_of(const vision::Annotation& annotation, const vision::Size& input) {
  const std::vector<TensorSpec> specs = cells()->tensors(input, 4);
  ReadTensor labels;
  labels.integers.resize(static_cast<std::size_t>(specs[0].elements()));
  std::vector<float> objects(static_cast<std::size_t>(specs[1].elements()));
  std::vector<float> boxes(static_cast<std::size_t>(specs[2].elements()));
  cells()->write(annotation, input,
                 std::vector<Buffer>{std::span(labels.integers), std::span(objects), std::span(boxes)});
  return labels;
}

TEST(Boxes, BelongToCellsOfAnyExtents) {
  const vision::Size input{.width = 64, .height = 32};
  const ReadTensor none = labels_of({}, input);
  ASSERT_EQ(none.integers.size(), 16U * 8 + 8 * 4 + 4 * 2);
  EXPECT_EQ(std::ranges::count(none.integers, -100), std::ssize(none.integers));
  const ReadTensor labels = labels_of(
      {.boxes = {{.label = 1, .left = 0, .top = 0, .right = 64, .bottom = 32},      // coarsest, its middle cell
                 {.label = 2, .left = 61, .top = 29, .right = 64, .bottom = 32},    // finest, the last cell
                 {.label = 0, .left = 62, .top = 30, .right = 63, .bottom = 31}}},  // before it, in the same cell
      input);
  EXPECT_EQ(labels.integers[16 * 8 - 1], 0) << "the last box of a cell counts";
  EXPECT_EQ(labels.integers[16 * 8 + 8 * 4 + 4 + 2], 1);
  EXPECT_EQ(std::ranges::count(labels.integers, -100), std::ssize(labels.integers) - 2);
}

TEST(Masks, ShowEachLabelOften) {
  const data::DatasetPair pair = masks_set({.train = {drawn_samples}, .test = {1}});
  std::array<int, 5> counts{};
  const std::vector<ReadTensor> tensors = read_first(*pair.train);
  for (const std::int32_t label : tensors[1].integers) ++counts.at(static_cast<std::size_t>(label));
  for (const int count : counts) EXPECT_GT(count, drawn_samples * edge * edge / 100);
}

TEST(Words, AreWrittenOnTheirSteps) {
  const std::vector<ReadTensor> tensors = read_first(*words_set({.train = {drawn_samples}, .test = {1}}).train);
  std::array<int, 6> of_length{};
  for (std::size_t n = 0; n < drawn_samples; ++n) {
    const std::int32_t length = tensors[2].integers[n];
    const std::int32_t steps = tensors[3].integers[n];
    ++of_length.at(static_cast<std::size_t>(length));
    EXPECT_GE(steps, 2 * length - 1) << "equal digits need a blank between them";
    EXPECT_LE(steps, 16);
    for (std::int32_t i = 0; i < 5; ++i) {
      const std::int32_t digit = tensors[1].integers[5 * n + static_cast<std::size_t>(i)];
      EXPECT_GE(digit, 0);
      EXPECT_LT(digit, i < length ? 10 : 1);
    }
    const auto brightest = [&](std::int32_t from, std::int32_t to) {
      float value = -1000;
      for (std::size_t i = 0; i < 16; ++i) {
        const float* row = tensors[0].reals.data() + (16 * n + i) * 64;
        value = std::accumulate(row + from, row + to, value, [](float a, float b) { return std::max(a, b); });
      }
      return value;
    };
    if (steps < 16) {
      EXPECT_LT(brightest(4 * steps, 64), brightest(0, 4 * steps));
    }
    EXPECT_GT(brightest(4 * (steps - 4), 4 * steps), 1) << "the last digit";
  }
  for (std::size_t length = 1; length <= 5; ++length) EXPECT_GT(of_length[length], drawn_samples / 10);
}

}  // namespace
}  // namespace lockstep::workloads
