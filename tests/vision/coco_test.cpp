// SPDX-License-Identifier: Apache-2.0
// COCO's annotations and pictures, in the layouts that users have.
#include "support/errors.hpp"
#include "vision/detection_files.hpp"
#include "vision/source/class_names.hpp"
#include "vision/source/fingerprint.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

const std::string two_categories = R"("categories": [{"id": 90, "name": "toothbrush"}, {"id": 2, "name": "bicycle"}])";

std::string image(int id, const std::string& file) {
  return R"({"id": )" + std::to_string(id) + R"(, "file_name": ")" + file + R"(", "width": 400, "height": 200})";
}
std::string object(int image_id, int category, const std::string& box, const std::string& more = "") {
  return R"({"id": 0, "image_id": )" + std::to_string(image_id) + R"(, "category_id": )" + std::to_string(category) +
         R"(, "bbox": [)" + box + "]" + more + "}";
}
std::string coco(const std::string& images, const std::string& objects) {
  return "{\"images\": [" + images + "], \"annotations\": [" + objects + "], " + two_categories + "}";
}
const std::string two_images = image(9, "b.png") + ", " + image(5, "a.png");

/// The layout of COCO 2017.
void put_coco(const UserFiles& user) {
  put_pngs(user, 400, 200, {"train2017/a.png", "train2017/b.png", "val2017/c.png"});
  user.put("annotations/instances_train2017.json",
           coco(two_images, object(9, 90, "10, 20, 30, 40", R"(, "area": 700.5, "iscrowd": 0)") + ", " +
                                object(9, 2, "0, 0, 100, 100", R"(, "area": 9216, "iscrowd": 1)")));
  user.put("annotations/instances_val2017.json",
           coco(image(0, "c.png"), object(0, 2, "0, 0, 100, 100", R"(, "area": 9216, "iscrowd": 1)") + ", " +
                                       object(0, 2, "0, 0, 20, 20")));
  user.put("annotations/captions_train2017.json", "{\"images\": []}");
  user.put("annotations/person_keypoints_val2017.json", "{\"images\": []}");
}

TEST(CocoFormat, ReadsTheFoldersOf2017) {
  const UserFiles user;
  put_coco(user);
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.survey.format, "coco");
  const Source& train = *sources.train;
  EXPECT_EQ(train.class_names(), (Names{"bicycle", "toothbrush"})) << "by ascending id";
  EXPECT_EQ(train.category_ids(), (std::vector<std::int64_t>{2, 90}));
  EXPECT_EQ(places_of(train), (Names{"train2017/a.png", "train2017/b.png"})) << "by ascending id";
  EXPECT_EQ(train.annotation(0).image_id, 5);
  EXPECT_TRUE(train.annotation(0).boxes.empty());
  ASSERT_EQ(train.annotation(1).boxes.size(), 1U) << "a crowd is no target of training";
  const Box& box = train.annotation(1).boxes[0];
  EXPECT_EQ(text_of_box(box), "1 10.000 20.000 40.000 60.000");
  EXPECT_EQ(area_of(box), 700.5);
  EXPECT_EQ(train.annotation(1).width, 400);
  EXPECT_EQ(sources.survey.train->notes.training_crowds.first, "train2017/b.png");
  const Annotation& val = sources.val->annotation(0);
  EXPECT_EQ(val.image_id, 0);
  ASSERT_EQ(val.boxes.size(), 2U) << "evaluations read crowds";
  EXPECT_TRUE(val.boxes[0].is_crowd);
  EXPECT_FALSE(val.boxes[1].is_crowd);
  EXPECT_EQ(area_of(val.boxes[1]), 400);
  EXPECT_EQ(sources.survey.val->boxes, 1);
  EXPECT_EQ(sources.survey.val->crowds, 1);
  EXPECT_EQ(sources.survey.val->class_counts, (std::vector<std::int64_t>{1, 0}));
}

TEST(CocoFormat, ReadsOtherFolders) {
  const std::string text = coco(two_images, object(5, 2, "0, 0, 20, 20"));
  const UserFiles paddle;
  put_pngs(paddle, 400, 200, {"images/a.png", "images/b.png"});
  paddle.put("annotations/train.json", text);
  paddle.put("annotations/val.json", text);
  EXPECT_EQ(places_of(*open_sources({.data = paddle.path()}).val), (Names{"images/a.png", "images/b.png"}));
  const UserFiles roboflow;
  put_pngs(roboflow, 400, 200, {"train/a.png", "train/b.png", "valid/a.png", "valid/b.png"});
  for (const char* part : {"train", "valid"}) roboflow.put(std::string(part) + "/_annotations.coco.json", text);
  EXPECT_EQ(places_of(*open_sources({.data = roboflow.path()}).val), (Names{"valid/a.png", "valid/b.png"}));
  const UserFiles whole;
  put_pngs(whole, 400, 200, {"a.png", "b.png"});
  whole.put("annotations/result.json", text);
  EXPECT_EQ(open_sources({.data = whole.path(), .evaluates_only = false}).train->size(), 2);
  EXPECT_EQ(open_sources({.data = whole.path(), .evaluates_only = true}).val->size(), 2);
  const UserFiles in_folders;
  put_pngs(in_folders, 400, 200, {"data/x/a.png"});
  in_folders.put("data/boxes.json", coco(image(1, "x/a.png"), object(1, 2, "0, 0, 20, 20")));
  EXPECT_EQ(places_of(*open_sources({.data = in_folders.path("data/boxes.json")}).train), (Names{"x/a.png"}));
}

TEST(CocoFormat, FilesMayBeNamed) {
  const UserFiles user;
  put_coco(user);
  const fs::path train = user.path("annotations/instances_train2017.json");
  const fs::path val = user.path("annotations/instances_val2017.json");
  Sources sources = open_sources({.data = train, .val = val});
  EXPECT_EQ(places_of(*sources.train), (Names{"train2017/a.png", "train2017/b.png"}));
  EXPECT_EQ(places_of(*sources.val), (Names{"val2017/c.png"}));
  sources = open_sources({.data = train, .val_split = 0.5});
  EXPECT_EQ(sources.train->size(), 1);
  EXPECT_EQ(open_sources({.data = val, .evaluates_only = true}).val->annotation(0).boxes.size(), 2U);
  user.put("annotations/instances_train2014.json", coco(two_images, ""));
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::invalid_argument,
               {"several files of a part, instances_train2014.json and instances_train2017.json", "by --val"});
  expect_error([&] { (void)open_sources({.data = train, .val = user.path("train2017")}); }, ErrorCode::io,
               {"has no annotations"});
  expect_error([&] { (void)open_sources({.data = train, .val = user.path("none.json")}); }, ErrorCode::io,
               {user.path("none.json").string() + " does not exist"});
}

TEST(CocoFormat, WhatIsWrongIsCounted) {
  const UserFiles user;
  put_pngs(user, 400, 200, {"images/a.png"});
  user.put("annotations/train.json", coco(image(5, "a.png") + ", " + image(6, "ghost.png") + ", " + image(7, "w.webp"),
                                          object(5, 2, "0, 0, 0, 20") + ", " + object(5, 2, "401, 0, 20, 20") + ", " +
                                              object(5, 2, "390, 0, 20, 20") + ", " + object(5, 2, "380, 0, 20.5, 20") +
                                              ", " + object(77, 2, "0, 0, 20, 20") + ", " +
                                              object(5, 2, "390, 0, 20, 20") + ", " + object(6, 90, "0, 0, 20, 20")));
  const Sources sources = open_sources({.data = user.path()});
  const PartNotes& notes = sources.survey.train->notes;
  EXPECT_EQ(notes.degenerate_boxes.first, "train.json, annotations[0]");
  EXPECT_EQ(notes.lost_boxes.first, "train.json, annotations[1]");
  EXPECT_EQ(notes.wide_boxes.first, "train.json, annotations[2]");
  EXPECT_EQ(notes.wide_boxes.count, 2) << "less than a pixel is rounding";
  EXPECT_EQ(notes.without_picture.first, "train.json, annotations[4]") << "its image is not listed";
  EXPECT_EQ(notes.without_picture.count, 2) << "nor does a picture exist";
  EXPECT_EQ(notes.duplicate_boxes.count, 1);
  EXPECT_EQ(notes.refused.at("WebP").count, 1);
  EXPECT_EQ(sources.train->size(), 1);
  EXPECT_EQ(sources.train->annotation(0).boxes.size(), 3U);
  EXPECT_EQ(sources.train->annotation(0).boxes[0].right, 410) << "as it is annotated";
}

TEST(CocoFormat, SizesThatAreNotAnnotatedComeFromHeaders) {
  const UserFiles user;
  put_pngs(user, 400, 200, {"images/a.png"});
  user.put("annotations/train.json",
           coco(R"({"id": 1, "file_name": "a.png"})", object(1, 2, "401, 0, 20, 20") + "," + object(1, 2, "0,0,9,9")));
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.train->annotation(0).width, 400);
  EXPECT_EQ(sources.train->annotation(0).height, 200);
  EXPECT_EQ(sources.survey.train->notes.lost_boxes.count, 1);
}

TEST(CocoFormat, ErrorsNameTheFile) {
  const UserFiles user;
  put_coco(user);
  const fs::path val = user.path("annotations/instances_val2017.json");
  const auto expect_refused = [&](ErrorCode code, const std::vector<std::string>& parts) {
    expect_error([&] { (void)open_sources({.data = user.path()}); }, code, parts);
  };
  user.put("annotations/instances_val2017.json", coco(image(0, "c.png"), object(0, 3, "0, 0, 20, 20")));
  expect_refused(ErrorCode::corrupt, {val.string() + ": annotations[0] has the category_id 3, which is none of the 2",
                                      "instances_train2017.json; add it there"});
  user.put("annotations/instances_val2017.json",
           R"({"images": [], "annotations": [], "categories": [{"id": 2, "name": "car"}]})");
  expect_refused(ErrorCode::invalid_argument, {"the category 2 is 'bicycle' in ", "and 'car' in " + val.string()});
  user.put("annotations/instances_val2017.json", coco(image(0, "z.png"), ""));
  expect_refused(ErrorCode::io, {"none of the 1 pictures of " + val.string() +
                                 ", such as z.png, exists; tried the "
                                 "folders " +
                                 user.path("val2017").string() + ", "});
  user.put("annotations/instances_val2017.json", "[]");
  expect_refused(ErrorCode::invalid_argument, {"coco needs annotations/*.json", "is no JSON with images"});
}

TEST(CocoFormat, FoldersOfPicturesAreNoClasses) {
  const UserFiles user;
  put_coco(user);
  EXPECT_EQ(open_sources({.data = user.path()}).survey.format, "coco") << "train2017 and val2017 hold pictures, too";
  const UserFiles labelme;
  labelme.put_pictures({"a/1.jpg", "b/1.jpg"});
  labelme.put("annotations/train.json", R"({"shapes": []})");
  expect_error([&] { (void)open_sources({.data = labelme.path(), .format = "coco"}); }, ErrorCode::invalid_argument,
               {"its file train.json is no JSON with images, annotations and categories"});
}

TEST(CocoFormat, RanksCompareAnnotations) {
  const UserFiles user;
  put_coco(user);
  const auto terms_of = [&](const std::string& objects) {
    user.put("annotations/instances_val2017.json", coco(image(0, "c.png"), objects));
    return fingerprint(*open_sources({.data = user.path()}).val, true).terms;
  };
  const auto usual_terms = terms_of(object(0, 2, "0, 0, 9, 9"));
  for (const auto& other : {terms_of(object(0, 90, "0, 0, 9, 9")), terms_of(object(0, 2, "0, 0, 9, 9.001")),
                            terms_of(object(0, 2, "0, 0, 9, 9", R"(, "iscrowd": 1)")),
                            terms_of(object(0, 2, "0, 0, 9, 9", R"(, "area": 80.5)"))})
    for (std::size_t i = 0; i < other.size(); ++i)
      EXPECT_EQ(usual_terms[i] == other[i], other[i].first != "annotations") << other[i].first;
}

TEST(CocoFormat, AModelsClassesKeepTheirNumbers) {
  const UserFiles user;
  put_coco(user);
  const Sources sources =
      open_sources({.data = user.path(), .evaluates_only = true, .class_names = {"toothbrush", "car", "bicycle"}});
  EXPECT_EQ(sources.val->annotation(0).boxes[0].label, 2);
  EXPECT_EQ(sources.val->category_ids(), (std::vector<std::int64_t>{90, -1, 2}));
  EXPECT_EQ(sources.val->annotation(0).image_id, 0);
}

}  // namespace
}  // namespace lockstep::vision
