// SPDX-License-Identifier: Apache-2.0
// Pictures of lines of text: their lists, and the characters that they are made of.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/errors.hpp"
#include "vision/formats/dictionary.hpp"
#include "vision/formats/line_texts.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

/// The texts of samples, with their paths: "a.png: word".
std::vector<std::string> texts_of(const Source& source) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < source.size(); ++i)
    texts.push_back(source.relative_place(i) + ": " + source.annotation(i).text);
  return texts;
}

TEST(Characters, AreTheCodePointsOfUtf8) {
  std::string_view text = "aé韩😀";
  for (const char* character : {"a", "é", "韩", "😀", ""}) EXPECT_EQ(next_character(text), character);
  EXPECT_EQ(length_of("aé韩😀"), 4);
  EXPECT_TRUE(is_utf8("aé韩😀"));
  for (const char* wrong : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\xa9", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xff"})
    EXPECT_FALSE(is_utf8(wrong)) << wrong;
}

TEST(LineTexts, AreThoseOfPaddleOcr) {
  const auto lines = parse_line_texts(
      "\xef\xbb\xbf"
      "a b.png\tJoint's \r\n\r\nc.png\t\nd.png\t韩",
      "rec_gt.txt");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].path, "a b.png");
  EXPECT_EQ(lines[0].text, "Joint's ");
  EXPECT_EQ(lines[1].text, "");
  EXPECT_EQ(lines[1].line, 3);
  EXPECT_EQ(lines[2].text, "韩");
}

TEST(LineTexts, ThatAreDamagedNameFileAndLine) {
  const auto parse = [](const char* text) { (void)parse_line_texts(text, "x/rec_gt.txt"); };
  expect_error([&] { parse("a.png\ta\nb.png b"); }, ErrorCode::corrupt, {"x/rec_gt.txt:2", "b.png b", "a tab"});
  expect_error([&] { parse("\ta"); }, ErrorCode::corrupt, {"x/rec_gt.txt:1", "no picture"});
  expect_error([&] { parse("a.png\ta\tb"); }, ErrorCode::corrupt, {"x/rec_gt.txt:1", "second tab"});
  expect_error([&] { parse("a.png\t\xff"); }, ErrorCode::corrupt, {"x/rec_gt.txt:1", "UTF-8"});
}

TEST(ADictionary, HasACharacterOnEachLine) {
  EXPECT_EQ(parse_dictionary("a\r\n \r\né\r\n", "dict.txt"), (Names{"a", " ", "é"}));
  const auto parse = [](const char* text) { (void)parse_dictionary(text, "dict.txt"); };
  expect_error([&] { parse("a\nbc\n"); }, ErrorCode::corrupt, {"dict.txt:2", "'bc' is not one character"});
  expect_error([&] { parse("a\nb\na\n"); }, ErrorCode::corrupt, {"dict.txt:3", "'a' stands on line 1"});
  expect_error([&] { parse(""); }, ErrorCode::corrupt, {"dict.txt", "no characters"});
}

TEST(Texts, AreListedAndCountedBeforeTraining) {
  const UserFiles files;
  files.put_pictures({"train/1.png", "train/2.png", "train/3.png", "train/4.png", "train/5.png", "test/1.png"});
  files.put(
      "rec_gt_train.txt",
      "train/1.png\tHello 2\ntrain/2.png\tCaf\xc3\xa9\ntrain/3.png\t???\ntrain/4.png\tabcdefghijklmnopqrstuvwxyz\n"
      "train/5.png\t\ntrain/6.png\tgone\ntrain/7.webp\told\n");
  files.put("rec_gt_test.txt", "test/1.png\tworld\n");
  const Sources sources = open_sources({.data = files.path()});
  EXPECT_EQ(sources.train->format(), "rec_gt");
  EXPECT_EQ(sources.train->class_names().size(), 36U);
  EXPECT_EQ(texts_of(*sources.train), (Names{"train/1.png: hello2", "train/2.png: caf"}));
  EXPECT_EQ(texts_of(*sources.val), (Names{"test/1.png: world"}));
  const PartNotes& notes = sources.survey.train->notes;
  EXPECT_EQ(notes.empty_texts.count, 2);
  EXPECT_EQ(notes.empty_texts.first, "rec_gt_train.txt:3");
  EXPECT_EQ(notes.long_texts.first, "rec_gt_train.txt:4");
  EXPECT_EQ(notes.without_picture.count, 1);
  EXPECT_EQ(notes.refused.at("WebP").count, 1);
  EXPECT_EQ(notes.unknown_characters.at("é").first, "rec_gt_train.txt:2");
  EXPECT_EQ(notes.unknown_characters.at("?").count, 3);
  EXPECT_EQ(sources.survey.train->class_counts[static_cast<std::size_t>(10 + ('l' - 'a'))], 2);
  const std::string table = text_of(sources.survey);
  for (const char* part :
       {"36 classes", "characters of the class", "have no training text: 0, …",
        "texts without a character of the dictionary, left out: 2", "texts that are too long, left out (--max-text): 1",
        "left out of their texts (--dict): 5", "'?' 3 (first rec_gt_train.txt:3)", "'é' 1"})
    EXPECT_NE(table.find(part), std::string::npos) << part << '\n' << table;
}

TEST(Texts, HaveTheCharactersOfAFileAndAreNotLoweredThen) {
  const UserFiles files;
  files.put_pictures({"1.png", "2.png"});
  files.put("rec_gt.txt", "1.png\tA b\n2.png\tCDE\n");
  files.put("dict.txt", "A\nB\nC\nb\n");
  const TextOptions texts{.dictionary = files.path("dict.txt"), .has_space = true, .longest = 3};
  const Sources sources = open_sources({.data = files.path("rec_gt.txt"), .texts = texts});
  EXPECT_EQ(sources.train->class_names(), (Names{"A", "B", "C", "b", " "}));
  EXPECT_EQ(texts_of(*sources.train), (Names{"1.png: A b", "2.png: C"}));
  const Sources of_model =
      open_sources({.data = files.path(), .evaluates_only = true, .class_names = {"D", "A"}, .texts = texts});
  EXPECT_EQ(of_model.train->class_names(), (Names{"D", "A"}));
  EXPECT_EQ(texts_of(*of_model.train), (Names{"1.png: A", "2.png: D"}));
}

TEST(Texts, AreRecognizedBesideListsOfClassesAndMasks) {
  const UserFiles files;
  files.put_pictures({"1.png"});
  const auto format_of = [&](const std::string& file, const std::string& line) {
    files.put(file, line);
    return open_sources({.data = files.path(file)}).train->format();
  };
  EXPECT_EQ(format_of("train_list.txt", "1.png\tword\n"), "rec_gt");
  EXPECT_EQ(format_of("rec_gt.txt", "1.png\t0\n"), "rec_gt");
  EXPECT_EQ(format_of("train_list.txt", "1.png\t0\n"), "list");
  files.put("rec_gt.txt", "1.png\t\xe4\n");
  expect_error([&] { (void)open_sources({.data = files.path("rec_gt.txt"), .format = "rec_gt"}); },
               ErrorCode::invalid_argument, {"rec_gt.txt", "no path, tab and text"});
  files.put("rec_gt.txt", "1.png\ta\n2.png\n");
  expect_error([&] { (void)open_sources({.data = files.path("rec_gt.txt")}); }, ErrorCode::corrupt,
               {"rec_gt.txt:2", "a tab"});
  files.put("rec_gt.txt", "1.png\t?\n");
  expect_error([&] { (void)open_sources({.data = files.path("rec_gt.txt")}); }, ErrorCode::invalid_argument,
               {"training part", "1 have no character of the dictionary", "rec_gt.txt:1"});
}

}  // namespace
}  // namespace lockstep::vision
