// SPDX-License-Identifier: Apache-2.0
// Lists of pictures with labels.
#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

void put_lists(const UserFiles& user) {
  user.put_pictures({"jpg/a.jpg", "jpg/b c.jpg", "jpg/d.png"});
  user.put("train_list.txt", "jpg/a.jpg 0\njpg/b c.jpg 2\n");
  user.put("val_list.txt", "jpg/d.png 1\n");
  user.put("label_list.txt", "0 cat\n1 dog\n2 red panda\n");
}

TEST(ListFormat, ReadsPaddleClasFolders) {
  const UserFiles user;
  put_lists(user);
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.survey.format, "list");
  EXPECT_EQ(sources.train->class_names(), (Names{"cat", "dog", "red panda"}));
  EXPECT_EQ(samples_of(*sources.train), (Names{"jpg/a.jpg 0", "jpg/b c.jpg 2"}));
  EXPECT_EQ(samples_of(*sources.val), Names{"jpg/d.png 1"});
  EXPECT_EQ(sources.train->place(1), user.path("jpg/b c.jpg").string());
}

TEST(ListFormat, ReadsFilesAsUsersHaveThem) {
  const UserFiles user;
  user.put_pictures(
      {"pictures/a.jpg", "elsewhere/b.jpg", "elsewhere/gr\xc3\xbc\xc3\x9f e.jpg", "elsewhere/latin\xfc.jpg"});
  user.put("lists/train.txt", "\xef\xbb\xbf../pictures/a.jpg 0\r\n\r\n" + user.path("elsewhere/b.jpg").string() +
                                  "\t1\r\n../elsewhere/gr\xc3\xbc\xc3\x9f e.jpg 1\r\n../elsewhere/latin\xfc.jpg 0");
  user.put("lists/val.txt", "../pictures/a.jpg 1");
  const Sources sources = open_sources({.data = user.path("lists/train.txt"), .val = user.path("lists/val.txt")});
  ASSERT_EQ(sources.train->size(), 4);
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NO_THROW(sources.train->read(i, bytes));
    EXPECT_EQ(std::ssize(bytes), sources.train->stored_bytes(i));
  }
  EXPECT_EQ(sources.train->class_names(), (Names{"0", "1"}));
  EXPECT_EQ(sources.survey.in_both.count, 1);
}

TEST(ListFormat, PathsMayBeRelativeToTheDataInPlaceOfTheList) {
  const UserFiles user;
  user.put_pictures({"jpg/a.jpg", "jpg/b.jpg"});
  user.put("train_list.txt", "jpg/a.jpg 0\njpg/b.jpg 1\n");
  user.put("meta/val.txt", "jpg/gone.jpg 0\njpg/a.jpg 1\n");
  const Sources sources = open_sources({.data = user.path(), .val = user.path("meta/val.txt")});
  EXPECT_EQ(sources.val->place(0), user.path("jpg/a.jpg").string());
  EXPECT_EQ(sources.survey.val->notes.without_picture.first, "jpg/gone.jpg (does not exist)");
}

TEST(ListFormat, ALabelOutsideTheClassNamesIsAnErrorWithFileAndLine) {
  const UserFiles user;
  put_lists(user);
  user.put("val_list.txt", "jpg/d.png 1\n\njpg/a.jpg 3\n");
  expect_error(
      [&] { (void)open_sources({.data = user.path()}); }, ErrorCode::corrupt,
      {user.path("val_list.txt").string() + ":3: the label 3 is none of the 3 classes; the last one is 2 (red panda)"});
  // Without names, the training list says which classes there are.
  fs::remove(user.path("label_list.txt"));
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::corrupt, {"val_list.txt:3: the label 3"});
}

TEST(ListFormat, ADamagedLabelDoesNotMakeAThousandClasses) {
  const UserFiles user;
  put_lists(user);
  fs::remove(user.path("label_list.txt"));
  user.put("train_list.txt", "jpg/a.jpg 0\njpg/d.png 1\njpg/b c.jpg 999\n");
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::corrupt,
               {"train_list.txt:3: the label 999 makes 1000 classes, of which only 3 have samples", "label_list.txt"});
}

TEST(ListFormat, DuplicatesAreCountedAndMissingPicturesLeftOut) {
  const UserFiles user;
  put_lists(user);
  user.put_pictures({"jpg/w.webp"});
  user.put(
      "train_list.txt",
      "jpg/a.jpg 0\njpg/b c.jpg 2\n./jpg/a.jpg 1\njpg/a.jpg 0\njpg/none.jpg 1\njpg 1\njpg/w.webp 1\njpg/d.png 1\n");
  const Sources sources = open_sources({.data = user.path()});
  const PartNotes& notes = sources.survey.train->notes;
  EXPECT_EQ(notes.duplicates.count, 2);
  EXPECT_EQ(notes.duplicates.first, "./jpg/a.jpg");
  EXPECT_EQ(notes.without_picture.count, 2);
  EXPECT_EQ(notes.without_picture.first, "jpg/none.jpg (does not exist)");
  EXPECT_EQ(notes.refused.at("WebP").count, 1);
  EXPECT_EQ(sources.train->size(), 5);
  EXPECT_EQ(sources.survey.in_both.count, 1) << "jpg/d.png";
}

TEST(ListFormat, AllPicturesMissingIsAnErrorThatNamesTheFirst) {
  const UserFiles user;
  user.put("train_list.txt", "x/a.jpg 0\nx/b.jpg 1\n");
  user.put("val_list.txt", "x/c.jpg 0\n");
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::invalid_argument,
               {"the training part in " + user.path().string(), "2 are listed but missing: x/a.jpg (does not exist)"});
}

TEST(ListFormat, OneListIsDividedOrEvaluated) {
  const UserFiles user;
  put_lists(user);
  const fs::path list = user.path("train_list.txt");
  EXPECT_EQ(open_sources({.data = list}).val, nullptr);
  EXPECT_EQ(open_sources({.data = list, .evaluates_only = true}).val->size(), 2);
  user.put("train_list.txt", "jpg/a.jpg 0\njpg/b c.jpg 0\njpg/d.png 0\n");
  EXPECT_EQ(open_sources({.data = list, .val_split = 0.3}).val->size(), 1);
  fs::remove(user.path("train_list.txt"));
  EXPECT_EQ(open_sources({.data = user.path(), .evaluates_only = true}).val->size(), 1) << "only a list to evaluate";
}

}  // namespace
}  // namespace lockstep::vision
