// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/found_boxes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::workloads {
namespace {

const std::vector<std::string> cell_names{"cell", "platelet"};
const std::vector<Detection> two{{0, 0.875, {20, 40, 100, 60}}, {1, 0.3333333333, {150.126, 0, 10, 10}}};

TEST(FoundBoxes, AreObjectsWithEdges) {
  nlohmann::ordered_json object;
  FoundBoxes(two).add_to(object, cell_names);
  EXPECT_EQ(object.dump(), R"({"boxes":[{"class":0,"name":"cell","score":0.875,"box":[20.0,40.0,120.0,100.0]},)"
                           R"({"class":1,"name":"platelet","score":0.333333,"box":[150.13,0.0,160.13,10.0]}]})");
}

TEST(FoundBoxes, AreWrittenAsAFindingOfAPicture) {
  const FoundBoxes found(two);
  const Finding& finding = found;
  EXPECT_EQ(finding.label_lines(200, 100, true), yolo_lines(two, 200, 100, true));
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  EXPECT_TRUE(finding.add_coco(7, {}, entries));
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1].at("image_id"), 7);
  EXPECT_EQ(entries[1].at("category_id"), 1) << "the number of the class";
}

TEST(FoundBoxes, AreLinesOfYolo) {
  EXPECT_EQ(yolo_lines(two, 200, 100, false),
            "0 0.350000 0.700000 0.500000 0.600000\n1 0.775630 0.050000 0.050000 0.100000\n");
  EXPECT_EQ(yolo_lines(std::span(two).first(1), 200, 100, true), "0 0.350000 0.700000 0.500000 0.600000 0.875000\n");
}

TEST(FoundBoxes, AreEntriesOfCocoWithAllDigits) {
  const std::array<std::int64_t, 2> ids{1, 90};
  nlohmann::ordered_json predictions = nlohmann::ordered_json::array();
  EXPECT_TRUE(FoundBoxes(two).add_coco(397'133, ids, predictions));
  ASSERT_EQ(predictions.size(), 2U);
  EXPECT_EQ(predictions[0].dump(),
            R"({"image_id":397133,"category_id":1,"bbox":[20.0,40.0,100.0,60.0],"score":0.875})");
  const auto read = nlohmann::json::parse(predictions.dump());
  EXPECT_EQ(read[1].at("category_id"), 90);
  EXPECT_EQ(read[1].at("score").get<double>(), two[1].score);
  EXPECT_EQ(read[1].at("bbox").at(0).get<double>(), two[1].box.x);
}

TEST(FoundBoxes, AreDrawnWithALabelAbove) {
  vision::Image picture;
  picture.resize(200, 120, 3);
  FoundBoxes({{0, 0.875, {20, 40, 100, 60}}}).draw(cell_names, picture);
  const vision::Color color = vision::class_color(0);
  const auto is_colored = [&](int x, int y) {
    const auto pixel = picture.row(y).subspan(static_cast<std::size_t>(3 * x), 3);
    return pixel[0] == color.red && pixel[1] == color.green && pixel[2] == color.blue;
  };
  EXPECT_TRUE(is_colored(20, 70) && is_colored(119, 70) && is_colored(60, 40) && is_colored(60, 99));
  EXPECT_FALSE(is_colored(19, 70) || is_colored(120, 70) || is_colored(60, 100) || is_colored(60, 70));
  EXPECT_TRUE(is_colored(20, 24)) << "the label";
}

TEST(FoundBoxes, HaveACaptionThatComparesThemWithTheAnnotation) {
  vision::Annotation annotation;
  annotation.boxes = {{.label = 0, .left = 22, .top = 40, .right = 120, .bottom = 100}};
  const FoundBoxes one({two[0]});
  EXPECT_EQ(one.caption(cell_names, annotation).text, "1 of 1 found, 0 false");
  EXPECT_GT(one.caption(cell_names, annotation).color.green, 150);
  const vision::Caption with_false = FoundBoxes(two).caption(cell_names, annotation);
  EXPECT_EQ(with_false.text, "1 of 1 found, 1 false");
  EXPECT_GT(with_false.color.red, 150);
  EXPECT_EQ(one.caption(cell_names, {}).text, "1 box");
  EXPECT_EQ(FoundBoxes({}).caption(cell_names, annotation).text, "0 of 1 found, 0 false");
}

}  // namespace
}  // namespace lockstep::workloads
