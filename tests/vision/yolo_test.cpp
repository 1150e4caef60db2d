// SPDX-License-Identifier: Apache-2.0
// YOLO's data.yaml and folders, as users have them.
#include <cstdlib>
#include <fstream>

#include "support/errors.hpp"
#include "support/verdict.hpp"
#include "vision/detection_files.hpp"
#include "vision/source/fingerprint.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

/// Two training pictures, of which one is background, and a validation picture, below a folder.
void put_yolo(const UserFiles& user, const std::string& folder) {
  put_pngs(user, 40, 20, {folder + "images/train/a.png", folder + "images/train/b.png", folder + "images/val/c.png"});
  user.put(folder + "labels/train/a.txt", "1 0.5 0.5 0.5 0.5\n0 0.25 0.5 0.25 1\n");
  user.put(folder + "labels/val/c.txt", "0 0.5 0.5 1 1\n");
}

const std::string usual_yaml = "train: images/train\nval: images/val\nnames: [cat, dog]\n";

TEST(YoloFormat, ReadsAFolderWithADataYaml) {
  const UserFiles user;
  put_yolo(user, "");
  user.put("bccd.yaml", "path: .\n" + usual_yaml);
  user.put("hyp.yaml", "lr0: 0.01\n");
  for (const fs::path& data : {user.path(), user.path("bccd.yaml")}) {
    const Sources sources = open_sources({.data = data});
    EXPECT_EQ(sources.survey.format, "yolo");
    EXPECT_EQ(sources.train->class_names(), (Names{"cat", "dog"}));
    EXPECT_EQ(places_of(*sources.train), (Names{"images/train/a.png", "images/train/b.png"}));
    EXPECT_EQ(places_of(*sources.val), (Names{"images/val/c.png"}));
    EXPECT_EQ(sources.train->place(0), user.path("images/train/a.png").string());
    const Annotation& annotation = sources.train->annotation(0);
    EXPECT_EQ(annotation.width, 40);
    EXPECT_EQ(annotation.height, 20);
    ASSERT_EQ(annotation.boxes.size(), 2U);
    EXPECT_EQ(text_of_box(annotation.boxes[0]), "1 10.000 5.0000 30.000 15.000");
    EXPECT_EQ(text_of_box(annotation.boxes[1]), "0 5.0000 0.0000 15.000 20.000");
    EXPECT_EQ(area_of(annotation.boxes[0]), 200);
    EXPECT_EQ(sources.survey.train->notes.without_labels.count, 1);
    EXPECT_EQ(sources.survey.train->notes.without_labels.first, "images/train/b.png");
    EXPECT_EQ(sources.survey.train->without_boxes, 1);
  }
}

TEST(YoloFormat, FindsPathsThatAreRelativeToSomethingElse) {
  const UserFiles user;
  const auto train_of = [&](const std::string& file, const std::string& yaml) {
    user.put(file, yaml);
    return open_sources({.data = user.path(file)}).train->place(0);
  };
  put_yolo(user, "datasets/cells/");
  const std::string expected = user.path("datasets/cells/images/train/a.png").string();
  EXPECT_EQ(train_of("yolov5/data/cells.yaml", "path: ../datasets/cells\n" + usual_yaml), expected)
      << "from the folder of the program, in whose folder data the file lies";
  EXPECT_EQ(train_of("cells.yaml", "path: datasets/cells\n" + usual_yaml), expected);
  EXPECT_EQ(train_of("cells.yaml", "path: " + user.path("datasets/cells").string() + '\n' + usual_yaml), expected);
  EXPECT_EQ(train_of("datasets/cells/data.yaml", "path: /content/cells\n" + usual_yaml), expected)
      << "data that have moved";
  EXPECT_EQ(train_of("datasets/cells/data.yaml", "path: ../datasets/cells\n" + usual_yaml), expected);
  EXPECT_EQ(train_of("datasets/cells/data.yaml", "train: ../images/train\nval: ../images/val\nnames: [cat, dog]\n"),
            expected)
      << "\"../\" is dropped";
  EXPECT_EQ(train_of("datasets/yaml/data.yaml",
                     "train: ../cells/images/train\nval: ../cells/images/val\nnames: [cat, dog]\n"),
            expected)
      << "\"../\" is meant";
}

TEST(YoloFormat, ReadsRoboflowsFolders) {
  const UserFiles user;
  put_pngs(user, 40, 20, {"train/images/a.png", "valid/images/b.png", "test/images/c.png"});
  for (const char* labels : {"train/labels/a.txt", "valid/labels/b.txt", "test/labels/c.txt"})
    user.put(labels, "0 0.5 0.5 0.5 0.5\n");
  user.put("data.yaml",
           "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 1\nnames: ['RBC']\n");
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(places_of(*sources.train), (Names{"train/images/a.png"}));
  EXPECT_EQ(places_of(*sources.val), (Names{"valid/images/b.png"}));
  EXPECT_EQ(sources.val->annotation(0).boxes.size(), 1U);
  EXPECT_EQ(places_of(*open_sources({.data = user.path(), .val = user.path("test/images")}).val),
            (Names{"test/images/c.png"}));
  user.put("data.yaml", "train: ../train/images\ntest: ../test/images\nnames: ['RBC']\n");
  EXPECT_EQ(places_of(*open_sources({.data = user.path()}).val), (Names{"test/images/c.png"}));
  user.put("data.yaml", "train: ../train/images\nnames: ['RBC']\n");
  EXPECT_EQ(open_sources({.data = user.path()}).val, nullptr);
}

TEST(YoloFormat, ReadsListsOfPictures) {
  const UserFiles user;
  put_yolo(user, "");
  put_pngs(user, 40, 20, {"more/images/d.png"});
  user.put("more/labels/d.txt", "1 0.5 0.5 0.5 0.5\n");
  user.put("train.txt", "./images/train/b.png\r\n./images/train/a.png\n");
  user.put("lists/val.txt", "images/val/c.png\nimages/val/ghost.png\nimages/val/w.webp\n");
  user.put("lists/all.txt", user.path("images/val/c.png").string() + '\n');
  user.put("data.yaml", "train: [train.txt, more/images]\nval: [lists/val.txt, lists/all.txt]\nnames: [cat, dog]\n");
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(places_of(*sources.train), (Names{"images/train/a.png", "images/train/b.png", "more/images/d.png"}));
  EXPECT_EQ(places_of(*sources.val), (Names{"images/val/c.png", "images/val/c.png"}));
  const PartNotes& notes = sources.survey.val->notes;
  EXPECT_EQ(notes.without_picture.first, "images/val/ghost.png (does not exist)");
  EXPECT_EQ(notes.refused.at("WebP").first, "images/val/w.webp");
  EXPECT_EQ(notes.duplicates.first, "images/val/c.png");
  EXPECT_EQ(open_sources({.data = user.path(), .val = user.path("train.txt")}).val->size(), 2);
}

TEST(YoloFormat, ReadsFoldersWithoutADataYaml) {
  const UserFiles user;
  put_yolo(user, "");
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::invalid_argument,
               {"yolo needs", "it has no data.yaml and no file classes.txt"});
  user.put("classes.txt", "cat\ndog\n");
  Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.survey.format, "yolo");
  EXPECT_EQ(sources.train->size(), 2);
  EXPECT_EQ(sources.val->size(), 1);
  const UserFiles flat;  // as Label Studio exports it
  put_pngs(flat, 40, 20, {"images/a.png", "images/b.png"});
  flat.put("labels/a.txt", "0 0.5 0.5 0.5 0.5\n");
  flat.put("labels/classes.txt", "cat\n");
  EXPECT_EQ(open_sources({.data = flat.path(), .evaluates_only = true}).val->size(), 2);
  sources = open_sources({.data = flat.path(), .val_split = 0.5});
  EXPECT_EQ(sources.train->size(), 1);
  EXPECT_EQ(sources.val->size(), 1);
}

TEST(YoloFormat, TheLastFolderOfImagesHasTheLabels) {
  const UserFiles user;
  put_pngs(user, 40, 20, {"images/set/images/deep/a.b.png", "beside/c.png"});
  user.put("images/set/labels/deep/a.b.txt", "0 0.5 0.5 0.5 0.5\n");
  user.put("beside/c.txt", "0 0.5 0.5 0.5 0.5\n");
  user.put("data.yaml", "train: images/set/images\nval: beside\nnames: [cat]\n");
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.train->annotation(0).boxes.size(), 1U);
  EXPECT_EQ(sources.val->annotation(0).boxes.size(), 1U) << "without such a folder they lie beside the pictures";
}

TEST(YoloFormat, WhatIsWrongIsCounted) {
  const UserFiles user;
  put_yolo(user, "");
  user.put("data.yaml", usual_yaml);
  user.put("labels/train/a.txt",
           "1 0.5 0.5 0.5 0.5\n1 0.5 0.5 0.5 0.5\n0 0.5 0.5 0 0.5\n0 1 0.5 0.5 0.5\n0 0.99 0.5 0.05 0.5\n");
  user.put("labels/train/b.txt", "");
  user.put("images/train/torn.png", "no picture");
  user.put("labels/train/torn.txt", "0 0.5 0.5 0.5 0.5\n");
  const Sources sources = open_sources({.data = user.path()});
  const PartNotes& notes = sources.survey.train->notes;
  EXPECT_EQ(notes.repeated_boxes.first, "labels/train/a.txt:2");
  EXPECT_EQ(notes.degenerate_boxes.first, "labels/train/a.txt:3");
  EXPECT_EQ(notes.wide_boxes.first, "labels/train/a.txt:4");
  EXPECT_EQ(notes.wide_boxes.count, 1) << "less than a pixel is rounding";
  EXPECT_EQ(notes.without_labels.count, 0) << "an empty file says that there is nothing";
  EXPECT_EQ(notes.without_header.first, "images/train/torn.png");
  EXPECT_EQ(sources.train->size(), 3) << "the torn one is an error, or a bad sample, when its turn comes";
  EXPECT_EQ(sources.survey.train->boxes, 3);
  EXPECT_EQ(text_of_box(sources.train->annotation(0).boxes[1]), "0 30.000 5.0000 50.000 15.000");
}

TEST(YoloFormat, ErrorsNameFileAndLine) {
  const UserFiles user;
  put_yolo(user, "");
  user.put("data.yaml", usual_yaml);
  const auto expect_refused = [&](ErrorCode code, const std::vector<std::string>& parts) {
    expect_error([&] { (void)open_sources({.data = user.path()}); }, code, parts);
  };
  user.put("labels/val/c.txt", "0 0.5 0.5 1 1\n2 0.5 0.5 1 1\n");
  expect_refused(ErrorCode::corrupt,
                 {user.path("labels/val/c.txt").string() + ":2: the class 2 is none of the 2 classes"});
  fs::remove(user.path("labels/val/c.txt"));
  expect_refused(ErrorCode::invalid_argument,
                 {"none of the 1 pictures such as " + user.path("images/val/c.png").string() + " has a file of labels",
                  "would be " + user.path("labels/val/c.txt").string()});
  user.put("data.yaml", "path: nowhere\ntrain: images/training\nval: images/val\nnames: [cat, dog]\n");
  user.put("labels/val/c.txt", "");
  expect_refused(ErrorCode::io, {"images/training of " + user.path("data.yaml").string() + " does not exist; tried " +
                                     user.path("nowhere/images/training").string(),
                                 user.path("images/training").string()});
  EXPECT_EQ(open_sources({.data = user.path(), .evaluates_only = true}).train, nullptr);
  user.put("data.yaml", "train: images/train\n");
  expect_error([&] { (void)open_sources({.data = user.path("data.yaml")}); }, ErrorCode::corrupt,
               {"has no names of classes"});
  user.put("data.yaml", "nc: 2\nval: # later\n");
  expect_refused(ErrorCode::corrupt, {"names no pictures"});
  user.put("data.yaml", usual_yaml);
  user.put("other.yaml", usual_yaml);
  expect_refused(ErrorCode::invalid_argument, {"it has 2 files of this kind, such as data.yaml and other.yaml"});
}

TEST(YoloFormat, RanksCompareLabelsAndNoFolders) {
  const UserFiles one;
  const UserFiles other;
  for (const UserFiles* user : {&one, &other}) {
    put_yolo(*user, "cells/");
    user->put("cells.yaml", "path: cells\n" + usual_yaml);
  }
  const auto terms_of = [](const UserFiles& user) {
    return fingerprint(*open_sources({.data = user.path("cells.yaml")}).train, true).terms;
  };
  EXPECT_EQ(terms_of(one), terms_of(other)) << "copies may lie in different folders";
  other.put("cells/labels/train/a.txt", "1 0.5 0.5 0.5 0.5\n0 0.25 0.5 0.25 0.9\n");
  const auto here = terms_of(one);
  const auto there = terms_of(other);
  for (std::size_t i = 0; i < here.size(); ++i)
    EXPECT_EQ(here[i] == there[i], here[i].first != "annotations") << here[i].first;
}

TEST(YoloFormat, AnotherDataYamlMayBeTheValidationPart) {
  const UserFiles user;
  put_yolo(user, "");
  user.put("data.yaml", usual_yaml);
  user.put("other/val.yaml", "path: ..\nval: images/train\nnames: [cat, dog]\n");
  const SourceOptions options{.data = user.path(), .val = user.path("other/val.yaml")};
  EXPECT_EQ(open_sources(options).val->size(), 2);
  user.put("other/val.yaml", "path: ..\nval: images/train\nnames: [dog, cat]\n");
  expect_error([&] { (void)open_sources(options); }, ErrorCode::invalid_argument, {"the classes of", "the same names"});
}

/// Makes a link to each picture of BCCD, and labels of its boxes as YOLO has them.
void put_bccd(const UserFiles& user, const Source& voc, const std::string& part) {
  fs::create_directories(user.path("images/" + part));
  for (std::int64_t i = 0; i < voc.size(); ++i) {
    const fs::path picture = voc.place(i);
    fs::create_symlink(picture, user.path("images/" + part) / picture.filename());
    const Annotation& annotation = voc.annotation(i);
    std::string lines;
    for (const Box& box : annotation.boxes) {
      lines += std::to_string(box.label);
      for (const double number :
           {(box.left + box.right) / 2.0 / annotation.width, (box.top + box.bottom) / 2.0 / annotation.height,
            (box.right - double{box.left}) / annotation.width, (box.bottom - double{box.top}) / annotation.height})
        lines += ' ' + std::to_string(number);
      lines += '\n';
    }
    user.put("labels/" + part + '/' + picture.stem().string() + ".txt", lines);
  }
}

TEST(YoloFormat, BccdHasTheBoxesThatVocHas) {
  const char* root = std::getenv("LOCKSTEP_DATA");
  const fs::path archive = fs::path(root != nullptr ? root : LOCKSTEP_DATA_DEFAULT) / "bccd.tar";
  if (!fs::exists(archive)) LOCKSTEP_SKIP(bccd) << archive << " does not exist; set LOCKSTEP_DATA";
  const UserFiles user;
  ASSERT_EQ(std::system(("tar -xf '" + archive.string() + "' -C '" + user.path().string() + "'").c_str()), 0);
  const Sources voc = open_sources({.data = user.path("bccd")});
  const UserFiles yolo;
  put_bccd(yolo, *voc.train, "train");
  put_bccd(yolo, *voc.val, "val");
  yolo.put("data.yaml", "train: images/train\nval: images/val\nnames: [Platelets, RBC, WBC]\n");
  const Sources sources = open_sources({.data = yolo.path()});
  ASSERT_EQ(sources.train->size(), voc.train->size());
  ASSERT_EQ(sources.val->size(), voc.val->size());
  // A box that is annotated twice counts once here.
  EXPECT_EQ(sources.survey.train->boxes + sources.survey.train->notes.repeated_boxes.count, voc.survey.train->boxes);
  EXPECT_EQ(sources.survey.train->notes.repeated_boxes.count, voc.survey.train->notes.duplicate_boxes.count);
  for (std::int64_t i = 0; i < voc.val->size(); ++i) {
    const Annotation& ours = sources.val->annotation(i);
    const Annotation& theirs = voc.val->annotation(i);
    if (ours.boxes.size() != theirs.boxes.size()) continue;
    for (std::size_t b = 0; b < ours.boxes.size(); ++b) {
      EXPECT_EQ(ours.boxes[b].label, theirs.boxes[b].label);
      EXPECT_NEAR(ours.boxes[b].left, theirs.boxes[b].left, 1e-3);
      EXPECT_NEAR(ours.boxes[b].bottom, theirs.boxes[b].bottom, 1e-3);
    }
  }
}

}  // namespace
}  // namespace lockstep::vision
