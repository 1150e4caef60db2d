// SPDX-License-Identifier: Apache-2.0
#include "vision/source/class_names.hpp"

#include <gtest/gtest.h>

#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

/// Opens data for a model with these classes, and returns the samples of the validation part.
std::vector<std::string> evaluated(const UserFiles& user, const Names& class_names) {
  const Sources sources = open_sources({.data = user.path(), .evaluates_only = true, .class_names = class_names});
  EXPECT_EQ(sources.val->class_names(), class_names);
  EXPECT_EQ(sources.survey.class_names, class_names);
  return samples_of(*sources.val);
}

TEST(ClassNames, OfAModelGiveLabelsToFoldersOfOtherNumbers) {
  const UserFiles user;
  user.put_pictures({"val/bird/1.jpg", "val/dog/2.jpg"});
  EXPECT_EQ(evaluated(user, {"bird", "dog"}), (Names{"bird/1.jpg 0", "dog/2.jpg 1"}));
  EXPECT_EQ(evaluated(user, {"cat", "dog", "bird"}), (Names{"bird/1.jpg 2", "dog/2.jpg 1"}));
}

TEST(ClassNames, OfAModelGiveLabelsToListsThatNameTheirClassesInAnotherOrder) {
  const UserFiles user;
  user.put_pictures({"a.jpg", "b.jpg"});
  user.put("val_list.txt", "a.jpg 0\nb.jpg 1\n");
  EXPECT_EQ(evaluated(user, {"cat", "dog"}), (Names{"a.jpg 0", "b.jpg 1"})) << "numbers are the model's";
  user.put("label_list.txt", "dog\ncat\n");
  EXPECT_EQ(evaluated(user, {"cat", "dog"}), (Names{"a.jpg 1", "b.jpg 0"}));
}

TEST(ClassNames, ThatTheModelDoesNotKnowAreNamed) {
  const UserFiles user;
  user.put_pictures({"val/bird/1.jpg", "val/dog/2.jpg"});
  expect_error(
      [&] {
        (void)evaluated(user, {"cat", "dog"});
      },
      ErrorCode::invalid_argument,
      {"bird/1.jpg is of the class 'bird', which is none of the 2 classes of the model, cat, dog"});
  user.put_pictures({"a.jpg"});
  user.put("val_list.txt", "a.jpg 2\n");
  user.put("label_list.txt", "0\n1\n2\n");
  expect_error(
      [&] {
        (void)evaluated(user, {"cat", "dog"});
      },
      ErrorCode::invalid_argument, {"a.jpg is of the class '2', which is none of the 2 classes of the model"});
}

}  // namespace
}  // namespace lockstep::vision
