// SPDX-License-Identifier: Apache-2.0
// Folders of classes.
#include <algorithm>

#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

void put_two_parts(const UserFiles& user) {
  user.put_pictures({"train/dog/1.jpg", "train/dog/2.JPEG", "train/cat/b.png", "train/cat/a.jpg",
                     "train/cat/more/c.jpg", "val/cat/a.jpg", "val/dog/9.jpg"});
}

TEST(FolderFormat, ClassesAreSortedFoldersAndSamplesSortedFiles) {
  const UserFiles user;
  put_two_parts(user);
  user.put("train/dog/notes.txt", "no picture");
  user.put("train/cat/.hidden.jpg", "x");
  user.put(".cache/x.jpg", "x");
  user.put("train/.ipynb_checkpoints/x.jpg", "x");
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.survey.format, "folder");
  EXPECT_EQ(sources.train->class_names(), (Names{"cat", "dog"}));
  EXPECT_EQ(samples_of(*sources.train),
            (Names{"cat/a.jpg 0", "cat/b.png 0", "cat/more/c.jpg 0", "dog/1.jpg 1", "dog/2.JPEG 1"}));
  EXPECT_EQ(samples_of(*sources.val), (Names{"cat/a.jpg 0", "dog/9.jpg 1"}));
  EXPECT_EQ(sources.train->place(0), user.path("train/cat/a.jpg").string());
  EXPECT_EQ(sources.train->stored_bytes(0), std::ssize(std::string("picture train/cat/a.jpg")));
  std::vector<std::byte> bytes;
  sources.train->read(0, bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "picture train/cat/a.jpg");
}

TEST(FolderFormat, ValComesBeforeTestAndANamedPartBeforeBoth) {
  const UserFiles user;
  put_two_parts(user);
  user.put_pictures({"test/cat/t.jpg", "test/dog/t.jpg", "other/dog/o.jpg"});
  EXPECT_EQ(samples_of(*open_sources({.data = user.path()}).val), (Names{"cat/a.jpg 0", "dog/9.jpg 1"}));
  EXPECT_EQ(samples_of(*open_sources({.data = user.path(), .val = user.path("other")}).val), Names{"dog/o.jpg 1"});
  fs::remove_all(user.path("val"));
  EXPECT_EQ(samples_of(*open_sources({.data = user.path()}).val), (Names{"cat/t.jpg 0", "dog/t.jpg 1"}));
}

TEST(FolderFormat, APartToEvaluateIsEnoughForEvaluations) {
  const UserFiles user;
  user.put_pictures({"test/cat/t.jpg", "test/dog/t.jpg"});
  const Sources sources = open_sources({.data = user.path(), .evaluates_only = true});
  EXPECT_EQ(sources.train, nullptr);
  EXPECT_EQ(samples_of(*sources.val), (Names{"cat/t.jpg 0", "dog/t.jpg 1"}));
  // A folder of classes without parts is then the part to evaluate, and labels follow the names of the checkpoint.
  const Sources whole =
      open_sources({.data = user.path("test"), .evaluates_only = true, .class_names = {"ant", "dog", "bee", "cat"}});
  EXPECT_EQ(samples_of(*whole.val), (Names{"cat/t.jpg 3", "dog/t.jpg 1"}));
  EXPECT_EQ(whole.val->class_names().size(), 4U);
  // A part to train on is not evaluated in place of one that is missing.
  fs::rename(user.path("test"), user.path("train"));
  EXPECT_EQ(open_sources({.data = user.path(), .evaluates_only = true}).val, nullptr);
  EXPECT_EQ(open_sources({.data = user.path("train"), .evaluates_only = true}).val->size(), 2);
}

std::vector<std::string> many_pictures() {
  std::vector<std::string> paths;
  for (int i = 0; i < 100; ++i) paths.push_back("cat/" + std::to_string(i) + ".jpg");
  for (int i = 0; i < 10; ++i) paths.push_back("dog/" + std::to_string(i) + ".jpg");
  paths.push_back("eel/only.jpg");
  return paths;
}

TEST(FolderFormat, AFractionOfEachClassIsSetAside) {
  const UserFiles user;
  user.put_pictures(many_pictures());
  const SourceOptions options{.data = user.path(), .val_split = 0.1, .seed = 3};
  const Sources sources = open_sources(options);
  EXPECT_EQ(sources.survey.val->class_counts, (std::vector<std::int64_t>{10, 1, 0}));
  EXPECT_EQ(sources.survey.train->class_counts, (std::vector<std::int64_t>{90, 9, 1}));
  Names both = samples_of(*sources.train);
  const Names val = samples_of(*sources.val);
  EXPECT_TRUE(std::is_sorted(both.begin(), both.end())) << "the order of the files is kept";
  both.insert(both.end(), val.begin(), val.end());
  std::sort(both.begin(), both.end());
  EXPECT_EQ(std::unique(both.begin(), both.end()), both.end());
  EXPECT_EQ(both.size(), 111U);
  EXPECT_EQ(samples_of(*open_sources(options).val), val);
  EXPECT_NE(samples_of(*open_sources({.data = user.path(), .val_split = 0.1, .seed = 4}).val), val);
  // The same relative paths elsewhere are divided in the same way.
  const UserFiles copy;
  copy.put_pictures(many_pictures());
  EXPECT_EQ(samples_of(*open_sources({.data = copy.path(), .val_split = 0.1, .seed = 3}).val), val);
}

TEST(FolderFormat, AFolderOfClassesWithoutPartsIsToTrainOn) {
  const UserFiles user;
  user.put_pictures({"cat/1.jpg", "dog/1.jpg"});
  const Sources alone = open_sources({.data = user.path()});
  EXPECT_EQ(alone.train->size(), 2);
  EXPECT_EQ(alone.val, nullptr);
  EXPECT_EQ(open_sources({.data = user.path(), .val = user.path()}).val->size(), 2);
}

TEST(FolderFormat, AFractionThatCannotBeSetAsideIsAnError) {
  const UserFiles user;
  user.put_pictures({"cat/1.jpg", "dog/1.jpg"});
  for (const double fraction : {1.0, 1.5, -0.1})
    expect_error([&] { (void)open_sources({.data = user.path(), .val_split = fraction}); }, ErrorCode::invalid_argument,
                 {"must be less than 1"});
  const UserFiles parts;
  put_two_parts(parts);
  expect_error([&] { (void)open_sources({.data = parts.path(), .val_split = 0.5}); }, ErrorCode::invalid_argument,
               {"which has one: " + parts.path("val").string(), "leave the fraction out"});
}

TEST(FolderFormat, AFolderThatIsNoClassIsAnError) {
  const UserFiles user;
  put_two_parts(user);
  user.put_pictures({"val/cta/1.jpg"});
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::corrupt,
               {user.path("val/cta").string() + " is none of the 2 classes"});
}

TEST(FolderFormat, WhatIsLeftOutIsCounted) {
  const UserFiles user;
  put_two_parts(user);
  user.put_pictures({"train/cat/x.webp", "train/cat/y.WEBP", "train/dog/z.bmp", "train/dog/z.heic", "train/loose.jpg"});
  fs::create_directory(user.path("train/empty"));
  fs::create_symlink("nowhere", user.path("train/dog/gone.jpg"));
  const Sources sources = open_sources({.data = user.path()});
  const PartNotes& notes = sources.survey.train->notes;
  EXPECT_EQ(notes.refused.at("WebP").count, 2);
  EXPECT_EQ(notes.refused.at("WebP").first, "cat/x.webp");
  EXPECT_EQ(notes.refused.at("BMP").count, 1);
  EXPECT_EQ(notes.refused.at("HEIC").count, 1);
  EXPECT_EQ(notes.without_annotation.first, "loose.jpg");
  EXPECT_EQ(notes.without_picture.first, "dog/gone.jpg (is a symbolic link to nowhere, which does not exist)");
  EXPECT_EQ(sources.survey.train->class_counts, (std::vector<std::int64_t>{3, 2, 0}));
}

TEST(FolderFormat, APartWithoutReadablePicturesIsAnError) {
  const UserFiles user;
  user.put_pictures({"train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.webp", "val/dog/1.webp", "val/dog/1.tif"});
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::invalid_argument,
               {"the validation part in " + user.path("val").string() + " has no picture that can be read",
                "2 of kind WebP are not read: convert them to JPEG or PNG", "1 of kind TIFF"});
}

}  // namespace
}  // namespace lockstep::vision
