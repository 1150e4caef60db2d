// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/text_lines.hpp"

#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

Names list_of(const std::string& text) {
  Names lines;
  for (const ListLine& line : parse_list(text, "some/list.txt"))
    lines.push_back(std::to_string(line.line) + ": " + line.path + " = " + std::to_string(line.label));
  return lines;
}

void expect_bad_list(const std::string& text, const std::vector<std::string>& parts) {
  expect_error([&] { (void)parse_list(text, "some/list.txt"); }, ErrorCode::corrupt, parts);
}

TEST(TextLines, AreReadAsUsersWriteThem) {
  EXPECT_EQ(list_of("a.jpg 0\nb.jpg 1\n"), (Names{"1: a.jpg = 0", "2: b.jpg = 1"}));
  EXPECT_EQ(list_of("\xef\xbb\xbf"
                    "a.jpg 0\r\n\r\n \t\n../b.jpg\t12\r\n/abs/c d.jpg 3  "),
            (Names{"1: a.jpg = 0", "4: ../b.jpg = 12", "5: /abs/c d.jpg = 3"}));
  EXPECT_EQ(list_of("two words.jpg   7"), Names{"1: two words.jpg = 7"}) << "spaces before the label belong to neither";
  EXPECT_EQ(list_of("latin\xfc.jpg 1"), Names{"1: latin\xfc.jpg = 1"});
  EXPECT_EQ(list_of(""), Names{});
}

TEST(TextLines, WrongOnesAreNamed) {
  expect_bad_list("a.jpg 0\n\nb.jpg\n", {"some/list.txt:3: 'b.jpg' has no label"});
  expect_bad_list("7\n", {"some/list.txt:1: '7' has no label"});
  expect_bad_list("a.jpg cat", {":1: 'cat' is no label"});
  expect_bad_list("a.jpg 1,0,1", {":1: '1,0,1' is no label"});
  expect_bad_list("a.jpg 1.5", {"'1.5' is no label"});
  expect_bad_list("a.jpg -1", {"the label -1 is no class"});
  expect_bad_list("a.jpg 1000000", {"the label 1000000 is no class"});
  expect_bad_list("a.jpg 99999999999999999999", {"is no label"});
  expect_bad_list(
      "\xff\xfe"
      "a",
      {"some/list.txt is a text in UTF-16; save it as UTF-8"});
}

TEST(ClassNames, StandAloneOrBehindTheirNumbers) {
  EXPECT_EQ(parse_class_names("cat\ndog\r\n\nred panda", "f"), (Names{"cat", "dog", "red panda"}));
  EXPECT_EQ(parse_class_names("1 dog\n0 tench, Tinca tinca\n2\tred panda\n", "f"),
            (Names{"tench, Tinca tinca", "dog", "red panda"}));
  EXPECT_EQ(parse_class_names("0\n1\n2\n", "f"), (Names{"0", "1", "2"})) << "numbers alone are names";
}

TEST(ClassNames, WrongOnesAreNamed) {
  const auto expect_bad = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error([&] { (void)parse_class_names(text, "labels.txt"); }, ErrorCode::corrupt, parts);
  };
  expect_bad("", {"labels.txt names no class"});
  expect_bad("cat\ndog\n\ncat\n", {"labels.txt:4: this name stands on line 1, too"});
  expect_bad("0 cat\n1 dog\n1 cow\n", {"labels.txt:3: this number stands on line 2, too"});
  expect_bad("0 cat\n2 dog\n", {"labels.txt:2: the class 1 has no name"});
  expect_bad("0 cat\ndog\n", {"labels.txt:2: 'dog' has no number, as the first line has"});
}

}  // namespace
}  // namespace lockstep::vision
