// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/anchors.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::workloads {
namespace {

TEST(Anchors, MatchBoxesOfLessThanFourTimesTheirSides) {
  const std::vector<double> anchors = {10, 20, 100, 100};
  const auto recall = [&](const BoxSize& box) { return best_possible_recall(std::vector{box}, anchors); };
  EXPECT_EQ(recall({10, 20}), 1);
  EXPECT_EQ(recall({39.9, 20}), 1);
  EXPECT_EQ(recall({40, 20}), 0) << "four times as wide; of the other anchor a fifth in height";
  EXPECT_EQ(recall({2.5, 20}), 0);
  EXPECT_EQ(recall({2.6, 79}), 1);
  EXPECT_EQ(recall({26, 399}), 1) << "the second one";
  EXPECT_EQ(best_possible_recall(std::vector<BoxSize>{{10, 20}, {40, 20}, {100, 90}, {1, 1}}, anchors), 0.5);
  EXPECT_EQ(best_possible_recall({}, anchors), 1);
}

/// Three groups of sizes that are far from each other.
std::vector<BoxSize> groups() {
  std::vector<BoxSize> boxes;
  for (const double d : {-1.0, 0.0, 1.0})
    for (const BoxSize& middle : {BoxSize{200, 150}, BoxSize{20, 30}, BoxSize{30, 200}})
      boxes.push_back({middle.width + d, middle.height - d});
  return boxes;
}

TEST(Anchors, ByKMeansAreTheMiddlesOfGroupsByArea) {
  const std::vector<double> expected = {20, 30, 30, 200, 200, 150};
  for (const std::uint64_t seed : {0, 1, 2, 3, 4}) {
    const std::vector<double> found = k_means_anchors(groups(), 3, seed);
    ASSERT_EQ(found.size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << seed;
    EXPECT_EQ(k_means_anchors(groups(), 3, seed), found) << "the same numbers again";
  }
}

TEST(Anchors, ByKMeansNeedAsManySizes) {
  EXPECT_TRUE(k_means_anchors(groups(), 10, 1).empty());
  EXPECT_EQ(k_means_anchors(groups(), 9, 1).size(), 18U);
  EXPECT_TRUE(k_means_anchors({}, 1, 1).empty());
  EXPECT_EQ(k_means_anchors(std::vector<BoxSize>(5, {4, 4}), 1, 1), (std::vector<double>{4, 4}));
}

/// Three pictures that are never read.
class NeverReadPictures final : public vision::Source {
 public:
  NeverReadPictures() : annotations_(3) {
    annotations_[0] = {
        .boxes = {{.label = 0, .left = 10, .top = 20, .right = 50, .bottom = 40}}, .width = 640, .height = 320};
    annotations_[1] = {.boxes = {{.label = 0, .left = 0, .top = 0, .right = 10, .bottom = 30},
                                 {.label = 0, .left = 0, .top = 0, .right = 90, .bottom = 90, .is_crowd = true}},
                       .width = 100,
                       .height = 200};
    annotations_[2] = {.boxes = {{.label = 0, .left = 0, .top = 0, .right = 10, .bottom = 30}}};
  }
  [[nodiscard]] std::string format() const override { return "boxes"; }
  [[nodiscard]] std::int64_t size() const override { return 3; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] const vision::Annotation& annotation(std::int64_t sample) const override {
    return annotations_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::string place(std::int64_t /*sample*/) const override { return "nowhere"; }
  void read(std::int64_t /*sample*/, std::vector<std::byte>& /*bytes*/) const override {}

 private:
  std::vector<std::string> names_ = {"cell"};
  std::vector<vision::Annotation> annotations_;
};

TEST(Anchors, AreComparedWithBoxesInPixelsOfTheInput) {
  EXPECT_EQ(box_sizes(NeverReadPictures(), {.width = 320, .height = 320}), (std::vector<BoxSize>{{20, 10}, {16, 48}}))
      << "without the crowd, and the box of a picture whose size is not known";
}

}  // namespace
}  // namespace lockstep::workloads
