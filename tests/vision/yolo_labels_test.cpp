// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/yolo_labels.hpp"

#include "support/errors.hpp"

namespace lockstep::vision {
namespace {

YoloLabels parse_three(const std::string& text) { return parse_yolo_labels(text, "labels/a.txt", 3); }
void expect_bad_labels(const std::string& text, const std::vector<std::string>& parts) {
  expect_error([&] { (void)parse_three(text); }, ErrorCode::corrupt, parts);
}

TEST(YoloLabels, AreAClassAndABoxOnEachLine) {
  const auto [boxes, repeated] = parse_three(
      "\xef\xbb\xbf"
      "0 0.5 0.25 0.5 0.125\r\n\n2.0\t1e-1  1 0 1");
  ASSERT_EQ(boxes.size(), 2U);
  EXPECT_EQ(boxes[0].label, 0);
  EXPECT_EQ(boxes[0].x, 0.5);
  EXPECT_EQ(boxes[0].y, 0.25);
  EXPECT_EQ(boxes[0].width, 0.5);
  EXPECT_EQ(boxes[0].height, 0.125);
  EXPECT_EQ(boxes[1].label, 2) << "as NumPy writes classes";
  EXPECT_EQ(boxes[1].x, 0.1);
  EXPECT_EQ(boxes[1].line, 3);
  EXPECT_TRUE(repeated.empty());
  EXPECT_TRUE(parse_three(" \n\n").boxes.empty());
}

TEST(YoloLabels, APolygonIsReducedToItsBox) {
  const YoloBox box = parse_three("1 0.5 0.25 0.75 0.5 0.25 1").boxes.at(0);
  EXPECT_EQ(box.label, 1);
  EXPECT_EQ(box.x, 0.5);
  EXPECT_EQ(box.y, 0.625);
  EXPECT_EQ(box.width, 0.5);
  EXPECT_EQ(box.height, 0.75);
  EXPECT_EQ(parse_three("1 -0.25 0 0.5 0 0.5 1").boxes.at(0).x, 0.125) << "points may lie a little outside";
  expect_bad_labels("1 -0.75 0 0.5 0 0.5 1", {"the x -0.125"});
}

TEST(YoloLabels, RepeatedLinesCountOnce) {
  const auto [boxes, repeated] = parse_three("0 0.5 0.5 1 1\n1 0.5 0.5 1 1\n0 0.50 0.5 1 1.0\n0 0.5 0.5 1 1\n");
  EXPECT_EQ(boxes.size(), 2U);
  EXPECT_EQ(repeated, (std::vector<std::int64_t>{3, 4}));
}

TEST(YoloLabels, WrongOnesAreNamedWithFileAndLine) {
  expect_bad_labels("0 0.5 0.5 1 1\n0 0.5 x 1 1\n", {"labels/a.txt:2: 'x' is no number", "class x y width height"});
  expect_bad_labels("\n0 0.5 0.5 1\n", {"labels/a.txt:2: there are 4 numbers"});
  expect_bad_labels("0", {"there is 1 number;"});
  expect_bad_labels("0 0.5 0.5 1 1 0.9", {"there are 6 numbers", "without a confidence"});
  expect_bad_labels("0 0.5 0.5 1 1 0.9 1 1", {"there are 8 numbers"});
  expect_bad_labels("3 0.5 0.5 1 1", {"labels/a.txt:1: the class 3 is none of the 3 classes"});
  expect_bad_labels("1e6 0.5 0.5 1 1", {"the class 1000000 is none"});
  expect_bad_labels("-1 0.5 0.5 1 1", {"begins with the number of a class"});
  expect_bad_labels("0.5 0.5 0.5 1 1", {"begins with the number of a class"});
  expect_bad_labels("0 320 0.5 1 1", {"the x 320.000000 is no fraction of the picture", "divide pixels"});
  expect_bad_labels("0 0.5 0.5 1 -0.1", {"the height -0.1"});
  for (const char* number : {"nan", "inf", "-inf", "1e400", "0x1", "1,5"})
    expect_bad_labels("0 0.5 " + std::string(number) + " 1 1", {std::string("'") + number + "' is no number"});
  expect_bad_labels(std::string("\xff\xfe", 2) + "0 0", {"UTF-16"});
}

TEST(YoloLabels, ManyLinesTakeTimeInProportion) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "0 0.5 0.5 1 0." + std::to_string(i) + '\n';
  EXPECT_GT(parse_three(text).boxes.size(), 80'000U);
}

}  // namespace
}  // namespace lockstep::vision
