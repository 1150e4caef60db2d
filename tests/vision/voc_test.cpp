// SPDX-License-Identifier: Apache-2.0
// Pascal VOC, made here and BCCD.
#include <cstdlib>

#include "support/errors.hpp"
#include "support/verdict.hpp"
#include "vision/detection_files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

std::string object(const std::string& name, int left, int top, int right, int bottom) {
  const auto tag = [](const char* of, int value) {
    return std::string("<") + of + '>' + std::to_string(value) + "</" + of + '>';
  };
  return "  <object><name>" + name + "</name><bndbox>" + tag("xmin", left) + tag("ymin", top) + tag("xmax", right) +
         tag("ymax", bottom) + "</bndbox></object>\n";
}

void put_annotation(const UserFiles& user, const std::string& name, const std::string& objects) {
  user.put("Annotations/" + name + ".xml", "<annotation>\n" + objects + "</annotation>\n");
}

void put_voc(const UserFiles& user) {
  user.put_pictures({"JPEGImages/a.jpg", "JPEGImages/b.jpg", "JPEGImages/c d.png", "JPEGImages/e.jpg"});
  put_annotation(user, "a", object("dog", 1, 1, 10, 20) + object("cat", 5, 5, 7, 9));
  put_annotation(user, "b", "");
  put_annotation(user, "c d", object("cat", 2, 2, 3, 3));
  put_annotation(user, "e", object("dog", 2, 2, 3, 3));
  user.put("ImageSets/Main/train.txt", "a\r\nb\r\n");
  user.put("ImageSets/Main/val.txt", "c d\n");
  user.put("ImageSets/Main/test.txt", "e\n");
}

TEST(VocFormat, ReadsPartsBoxesAndClasses) {
  const UserFiles user;
  put_voc(user);
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.survey.format, "voc");
  EXPECT_EQ(sources.train->class_names(), (Names{"cat", "dog"}));
  ASSERT_EQ(sources.train->size(), 2);
  EXPECT_EQ(sources.train->relative_place(0), "JPEGImages/a.jpg");
  EXPECT_EQ(sources.train->annotation(0).label, -1);
  ASSERT_EQ(sources.train->annotation(0).boxes.size(), 2U);
  const Box& box = sources.train->annotation(0).boxes[0];
  EXPECT_EQ(box.label, 1);
  EXPECT_EQ(box.left, 0);
  EXPECT_EQ(box.bottom, 20);
  EXPECT_TRUE(sources.train->annotation(1).boxes.empty());
  EXPECT_EQ(sources.survey.train->without_boxes, 1);
  EXPECT_EQ(sources.val->relative_place(0), "JPEGImages/c d.png");
}

TEST(VocFormat, KnowsTheSplitsInUse) {
  const UserFiles user;
  put_voc(user);
  const auto first_of_val = [&](const SourceOptions& options) { return open_sources(options).val->relative_place(0); };
  EXPECT_EQ(first_of_val({.data = user.path(), .val = user.path("ImageSets/Main/test.txt")}), "JPEGImages/e.jpg");
  fs::rename(user.path("ImageSets/Main/train.txt"), user.path("ImageSets/Main/trainval.txt"));
  EXPECT_EQ(first_of_val({.data = user.path()}), "JPEGImages/e.jpg") << "val.txt is a part of trainval.txt";
  fs::remove(user.path("ImageSets/Main/trainval.txt"));
  EXPECT_EQ(first_of_val({.data = user.path(), .evaluates_only = true}), "JPEGImages/c d.png");
  fs::remove_all(user.path("ImageSets"));
  const Sources sources = open_sources({.data = user.path(), .val_split = 0.25});
  EXPECT_EQ(sources.train->size() + sources.val->size(), 4) << "all annotations, divided";
  EXPECT_EQ(open_sources({.data = user.path(), .evaluates_only = true}).val->size(), 4);
  for (const char* name : {"a", "b", "c d", "e"}) put_annotation(user, name, "");
  expect_error([&] { (void)open_sources({.data = user.path(), .val_split = 0.25}); }, ErrorCode::invalid_argument,
               {user.path().string() + " has no classes"});
}

TEST(VocFormat, ALabelFileNamesTheClassesInItsOrder) {
  const UserFiles user;
  put_voc(user);
  user.put("labels.txt", "dog\ncow\ncat\n");
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.train->class_names(), (Names{"dog", "cow", "cat"}));
  EXPECT_EQ(sources.train->annotation(0).boxes[1].label, 2);
  EXPECT_EQ(sources.survey.train->class_counts, (std::vector<std::int64_t>{1, 0, 1}));
  user.put("labels.txt", "dog\ncow\n");
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::corrupt,
               {user.path("Annotations/a.xml").string() + ":3: 'cat' is none of the 2 classes"});
}

TEST(VocFormat, WhatIsWrongIsCounted) {
  const UserFiles user;
  put_voc(user);
  user.put_pictures({"JPEGImages/alone.jpg", "JPEGImages/w.webp"});
  put_annotation(user, "w", "");
  user.put("labels.txt", "cat\ndog\n");
  put_annotation(user, "a", object("dog", 1, 1, 10, 20) + object("cat", 5, 5, 5, 9) + object("dog", 1, 1, 10, 20));
  user.put("ImageSets/Main/train.txt", "a\nb\nalone\nghost\nw\na\n");
  const Sources sources = open_sources({.data = user.path()});
  const PartNotes& notes = sources.survey.train->notes;
  EXPECT_EQ(notes.degenerate_boxes.count, 2) << "a is listed twice";
  EXPECT_EQ(notes.degenerate_boxes.first, "Annotations/a.xml:3");
  EXPECT_EQ(notes.duplicate_boxes.first, "Annotations/a.xml:4");
  EXPECT_EQ(notes.without_annotation.first, "JPEGImages/alone.jpg");
  EXPECT_EQ(notes.without_picture.first, "Annotations/ghost.xml");
  EXPECT_EQ(notes.refused.at("WebP").first, "JPEGImages/w.webp");
  EXPECT_EQ(notes.duplicates.first, "JPEGImages/a.jpg");
  EXPECT_EQ(sources.train->size(), 3);
}

TEST(VocFormat, ComparesBoxesWithTheHeadersOfPictures) {
  const UserFiles user;
  put_pngs(user, 40, 20, {"JPEGImages/a.png"});
  put_annotation(user, "a",
                 "<object><name>dog</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>40</xmax>"
                 "<ymax>20</ymax></bndbox></object>\n" +
                     object("dog", 42, 1, 50, 9) + object("dog", 30, 1, 50, 9) + object("dog", 30, 1, 41, 9));
  const Sources sources = open_sources({.data = user.path()});
  const Annotation& annotation = sources.train->annotation(0);
  EXPECT_EQ(annotation.width, 40);
  EXPECT_EQ(annotation.height, 20);
  ASSERT_EQ(annotation.boxes.size(), 3U);
  EXPECT_TRUE(annotation.boxes[0].is_difficult);
  EXPECT_EQ(area_of(annotation.boxes[0]), 800);
  EXPECT_EQ(sources.survey.train->difficult, 1);
  EXPECT_EQ(sources.survey.train->sizes, (std::array<std::int64_t, 3>{3, 0, 0}));
  EXPECT_EQ(sources.survey.train->notes.lost_boxes.first, "Annotations/a.xml:3");
  EXPECT_EQ(sources.survey.train->notes.wide_boxes.first, "Annotations/a.xml:4");
  EXPECT_EQ(sources.survey.train->notes.wide_boxes.count, 1) << "one pixel is rounding";
}

TEST(VocFormat, BccdHasItsKnownCounts) {
  const char* root = std::getenv("LOCKSTEP_DATA");
  const fs::path archive = fs::path(root != nullptr ? root : LOCKSTEP_DATA_DEFAULT) / "bccd.tar";
  if (!fs::exists(archive)) LOCKSTEP_SKIP(bccd) << archive << " does not exist; set LOCKSTEP_DATA";
  const UserFiles user;
  ASSERT_EQ(std::system(("tar -xf '" + archive.string() + "' -C '" + user.path().string() + "'").c_str()), 0);
  const Sources sources = open_sources({.data = user.path("bccd")});
  EXPECT_EQ(sources.train->size(), 205);
  EXPECT_EQ(sources.val->size(), 87);
  EXPECT_EQ(sources.train->class_names(), (Names{"Platelets", "RBC", "WBC"}));
  EXPECT_EQ(sources.train->annotation(0).width, 640);
  EXPECT_EQ(sources.survey.train->notes.degenerate_boxes.count + sources.survey.val->notes.degenerate_boxes.count, 2);
  std::vector<std::byte> bytes;
  sources.train->read(0, bytes);
  Image picture;
  sources.train->decode(0, bytes, {}, picture);
  EXPECT_EQ(picture.width, 640);
  EXPECT_EQ(picture.height, 480);
}

}  // namespace
}  // namespace lockstep::vision
