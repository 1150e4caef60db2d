// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/voc_annotation.hpp"

#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

std::string object(const std::string& name, const std::string& corners, const std::string& more = "") {
  return "<object>\n<name>" + name + "</name>" + more + "<bndbox>" + corners + "</bndbox></object>\n";
}
std::string corners(const std::string& left, const std::string& top, const std::string& right,
                    const std::string& bottom) {
  return "<xmin>" + left + "</xmin><ymin>" + top + "</ymin><xmax>" + right + "</xmax><ymax>" + bottom + "</ymax>";
}
std::string annotation(const std::string& objects) {
  return "<?xml version=\"1.0\"?>\n<annotation>\n" + objects + "</annotation>\n";
}
std::vector<VocObject> parse(const std::string& text) { return parse_voc(text, "a.xml"); }
void expect_bad_voc(const std::string& text, const std::vector<std::string>& parts) {
  expect_error([&] { (void)parse(text); }, ErrorCode::corrupt, parts);
}

TEST(VocAnnotation, CornersFromOneAndInclusiveBecomeEdges) {
  const auto objects =
      parse(annotation(object("cat", corners("1", "21", "10", "480")) +
                       object(" red panda ", corners(" 12.5 ", "0", "20", "7"), "<difficult>1</difficult>")));
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0].name, "cat");
  EXPECT_EQ(objects[0].line, 3);
  EXPECT_EQ(objects[0].box.left, 0);
  EXPECT_EQ(objects[0].box.top, 20);
  EXPECT_EQ(objects[0].box.right, 10);
  EXPECT_EQ(objects[0].box.bottom, 480);
  EXPECT_FALSE(objects[0].box.is_difficult);
  EXPECT_EQ(objects[1].name, "red panda");
  EXPECT_EQ(objects[1].line, 5);
  EXPECT_EQ(objects[1].box.left, 11.5F);
  EXPECT_EQ(objects[1].box.top, 0) << "a box at 0, as files have that count from 0";
  EXPECT_TRUE(objects[1].box.is_difficult);
}

TEST(VocAnnotation, BoxesWithoutAreaAreTold) {
  const auto objects =
      parse(annotation(object("a", corners("5", "5", "5", "9")) + object("b", corners("9", "5", "5", "9")) +
                       object("c", corners("5", "5", "6", "6"))));
  EXPECT_FALSE(objects[0].has_area);
  EXPECT_FALSE(objects[1].has_area);
  EXPECT_TRUE(objects[2].has_area);
}

TEST(VocAnnotation, PartsOfAnObjectAreNoObjects) {
  const auto objects =
      parse(annotation(object("person", corners("1", "1", "9", "9"),
                              "<part><name>head</name><bndbox>" + corners("2", "2", "3", "3") + "</bndbox></part>")));
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_EQ(objects[0].box.right, 9);
}

TEST(VocAnnotation, WithoutObjectsOrWithMarksOfEncoding) {
  EXPECT_TRUE(parse(annotation("")).empty());
  EXPECT_EQ(parse("\xef\xbb\xbf" + annotation(object("cat", corners("1", "1", "2", "2")))).size(), 1U);
}

TEST(VocAnnotation, WrongOnesAreNamedWithTheirLine) {
  expect_bad_voc("", {"a.xml:1: this is no XML that can be read"});
  expect_bad_voc("<annotation>\n<object>\n<name>cat</title>", {"a.xml:3: this is no XML"});
  expect_bad_voc("<html></html>", {"a.xml:1: there is no element annotation"});
  expect_bad_voc(annotation("<object></object>"), {"a.xml:3: the object has no name"});
  expect_bad_voc(annotation("<object><name>cat</name></object>"), {"a.xml:3: the object 'cat' has no bndbox"});
  expect_bad_voc(annotation(object("cat", "<xmin>1</xmin>")), {"a.xml:3: the object has no number ymin"});
  for (const char* number : {"nan", "inf", "1e9", "1x", "0x10"})
    expect_bad_voc(annotation(object("cat", corners("1", number, "2", "3"))),
                   {"the object has no number ymin, but '" + std::string(number) + "'"});
}

TEST(VocAnnotation, NestingAndEntitiesCostNoMoreThanTheirText) {
  std::string deep = "<annotation>";
  for (int i = 0; i < 1'000'000; ++i) deep += "<a>";
  expect_bad_voc(deep, {"this is no XML"});
  std::string closed = deep;
  for (int i = 0; i < 1'000'000; ++i) closed += "</a>";
  EXPECT_TRUE(parse(closed + "</annotation>").empty());
  const std::string laughs = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>\n<annotation>" +
                             object("&b;", corners("1", "1", "2", "2")) + "</annotation>";
  EXPECT_EQ(parse(laughs).at(0).name, "&b;") << "entities are not expanded";
}

}  // namespace
}  // namespace lockstep::vision
