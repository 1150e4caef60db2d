// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/coco_json.hpp"

#include <sstream>

#include "support/errors.hpp"

namespace lockstep::vision {
namespace {

CocoFile parse_coco(const std::string& text) {
  std::istringstream in(text);
  return read_coco(in, "a.json");
}
void expect_bad_coco(const std::string& text, const std::vector<std::string>& parts) {
  expect_error([&] { (void)parse_coco(text); }, ErrorCode::corrupt, parts);
}
/// A file with one image, these annotations and two categories.
std::string with_annotations(const std::string& annotations) {
  return "{\"images\": [{\"id\": 7, \"file_name\": \"a.jpg\"}],\n\"annotations\": [" + annotations +
         "],\n\"categories\": [{\"id\": 3, \"name\": \"cat\"}, {\"id\": 1, \"name\": \"dog\"}]}\n";
}
const std::string good_object = R"({"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4]})";

TEST(CocoJson, KeepsWhatIsKnownAboutBoxes) {
  const CocoFile coco = parse_coco(R"({
    "info": {"year": 2017, "images": [{"id": "nested"}]}, "licenses": [[], {"id": null}],
    "annotations": [
      {"segmentation": [[1.5, 2, 3, 4, 5, 6]], "area": 12.5, "iscrowd": 0, "image_id": 139, "bbox": [1.25, 2, 3, 4.5],
       "category_id": 90, "id": 0, "attributes": {"id": 5, "bbox": [9]}, "keypoints": [1, 2, 3]},
      {"segmentation": {"counts": [1, 2], "size": [3, 4]}, "iscrowd": 1, "image_id": 9.0, "bbox": [0, 0, 1e1, 1],
       "category_id": 2, "id": 0}],
    "images": [{"license": 2, "file_name": "b.jpg", "height": 426, "width": 640, "id": 139, "flickr_url": "x"},
               {"id": 9, "file_name": "a.jpg", "width": null}],
    "categories": [{"supercategory": "x", "id": 90, "name": "toothbrush"}, {"id": 2, "name": "bicycle"}]})");
  ASSERT_EQ(coco.images.size(), 2U);
  EXPECT_EQ(coco.images[0].id, 9) << "by ascending id";
  EXPECT_EQ(coco.images[0].width, 0);
  EXPECT_EQ(coco.images[1].file, "b.jpg");
  EXPECT_EQ(coco.images[1].width, 640);
  EXPECT_EQ(coco.images[1].height, 426);
  ASSERT_EQ(coco.categories.size(), 2U);
  EXPECT_EQ(coco.categories[0].name, "bicycle");
  ASSERT_EQ(coco.objects.size(), 2U);
  const CocoObject& first = coco.objects[0];
  EXPECT_EQ(first.image, 139);
  EXPECT_EQ(first.category, 90);
  EXPECT_EQ(first.left, 1.25);
  EXPECT_EQ(first.height, 4.5);
  EXPECT_EQ(first.area, 12.5);
  EXPECT_FALSE(first.is_crowd);
  EXPECT_TRUE(coco.objects[1].is_crowd);
  EXPECT_EQ(coco.objects[1].image, 9);
  EXPECT_EQ(coco.objects[1].area, -1);
  EXPECT_EQ(coco.objects[1].place, 1);
}

TEST(CocoJson, MayBeEmptyAndLong) {
  EXPECT_TRUE(parse_coco(R"({"images": [], "annotations": [], "categories": []})").images.empty());
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += good_object + ",\n";  // more than one block
  const CocoFile coco = parse_coco(with_annotations(many + good_object));
  EXPECT_EQ(coco.objects.size(), 20'001U);
  EXPECT_EQ(coco.objects.back().height, 4);
  expect_bad_coco(with_annotations(many + "{}"), {"a.json:20002: annotations[20000] has no"});
}

TEST(CocoJson, WrongOnesAreNamedWithFileAndLine) {
  expect_bad_coco("", {"a.json:1: this is no JSON that can be read"});
  expect_bad_coco("{\"images\": [\n{\"id\": 1, \"file_name\": \"a", {"a.json:2: this is no JSON"});
  expect_bad_coco("[{\"image_id\": 1}]", {"this is a list; annotations of COCO are an object"});
  expect_bad_coco("{}", {"these are no annotations of COCO; there is no list images"});
  expect_bad_coco("7", {"there is no list images"});
  expect_bad_coco(R"({"images": [], "categories": []})", {"there is no list annotations"});
  expect_bad_coco("{\n\"images\": {}}", {"a.json:2: images is no list"});
  expect_bad_coco("{\"images\": 3}", {"images is no list"});
  expect_bad_coco("{\"images\": [[]]}", {"images[0] is no object"});
  expect_bad_coco("{\"images\": [3]}", {"images[0] is no object"});
  expect_bad_coco("{\"images\": [{\"id\": \"1\", \"file_name\": \"a\"}]}", {"images[0] has no whole number id"});
  expect_bad_coco("{\"images\": [{\"id\": 1.5, \"file_name\": \"a\"}]}", {"images[0] has no whole number id"});
  expect_bad_coco("{\"images\": [{\"id\": 18446744073709551615, \"file_name\": \"a\"}]}", {"no whole number id"});
  expect_bad_coco("{\"images\": [{\"id\": 1}]}", {"images[0] has no text file_name"});
  expect_bad_coco("{\"images\": [{\"id\": 1, \"file_name\": \"a\\u0000b\"}]}", {"images[0] has no text file_name"});
  expect_bad_coco("{\"categories\": [{\"id\": 1, \"name\": 3}]}", {"categories[0] has no text name"});
  expect_bad_coco(with_annotations(good_object + ",\n" + R"({"image_id": 7, "category_id": 3})"),
                  {"a.json:3: annotations[1] has no bbox of four numbers"});
  for (const char* box : {"[1, 2, 3]", "[1, 2, 3, 4, 5]", "[]", "3", "null", "{}", "[1e9, 2, 3, 4]"})
    expect_bad_coco(with_annotations(R"({"image_id": 7, "category_id": 3, "bbox": )" + std::string(box) + "}"),
                    {"annotations[0] has no bbox of four numbers"});
  expect_bad_coco(with_annotations(R"({"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, "4"]})"),
                  {"annotations[0] has a bbox of something else than numbers"});
  expect_bad_coco(with_annotations(R"({"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, NaN]})"),
                  {"this is no JSON that can be read"});
  expect_bad_coco(with_annotations(R"({"image_id": 7, "bbox": [1, 2, 3, 4]})"),
                  {"annotations[0] has no whole number category_id"});
  expect_bad_coco(with_annotations(good_object) + "}", {"this is no JSON"});
}

TEST(CocoJson, IdsThatOccurTwiceAreErrors) {
  expect_bad_coco(R"({"images": [{"id": 2, "file_name": "a.jpg"}, {"id": 1, "file_name": "b.jpg"},
                                 {"id": 2, "file_name": "c.jpg"}], "annotations": [], "categories": []})",
                  {"a.json has two images with the id 2, a.jpg and c.jpg"});
  expect_bad_coco(R"({"images": [], "annotations": [],
                      "categories": [{"id": 0, "name": "cat"}, {"id": 0, "name": "dog"}]})",
                  {"a.json has two categories with the id 0, cat and dog"});
}

TEST(CocoJson, NestingCostsNoMoreThanItsText) {
  expect_bad_coco("{\"info\": " + std::string(1'000'000, '['), {"this is no JSON"});
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_TRUE(
      parse_coco("{\"info\": " + deep + R"(, "images": [], "annotations": [], "categories": []})").images.empty());
}

}  // namespace
}  // namespace lockstep::vision
