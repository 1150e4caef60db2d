// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <array>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> words{"lenet", "resnet20", "learning-rate", "batch"};

TEST(Nearest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(nearest("lenet", words), "lenet");
  EXPECT_EQ(nearest("lennet", words), "lenet");
  EXPECT_EQ(nearest("resnet-20", words), "resnet20");
  EXPECT_EQ(nearest("bacth", words), "batch");
  EXPECT_EQ(nearest("learning_rate", words), "learning-rate");
}

TEST(Nearest, LeavesAloneWhatIsLikeNone) {
  constexpr std::array<std::string_view, 4> options{"freeze", "data-dir", "wait", "lr"};
  for (const char* word : {"resume", "save-dir", "weights", "np", "x", ""})
    EXPECT_EQ(nearest(word, options), "") << word;
  constexpr std::array<std::string_view, 2> devices{"cpu", "cuda"};
  EXPECT_EQ(nearest("gpu", devices), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'a'), options), "");
}

TEST(Nearest, TakesABeginningForTheOnlyWordThatHasIt) {
  constexpr std::array<std::string_view, 4> passes{"fuse", "recompute", "reuse-memory", "reuse"};
  EXPECT_EQ(nearest("reus", std::span(passes).first(3)), "reuse-memory");
  EXPECT_EQ(nearest("recom", passes), "recompute");
  EXPECT_EQ(nearest("re", passes), "") << "two begin so";
}

TEST(Nearest, CountsSwappedNeighborsOnce) {
  constexpr std::array<std::string_view, 2> choices{"bf16", "ring"};
  EXPECT_EQ(nearest("bf61", choices), "bf16");
  EXPECT_EQ(nearest("rign", choices), "ring");
}

TEST(Echo, IsOneLineOfBoundedLength) {
  EXPECT_EQ(echo("lenet"), "lenet");
  EXPECT_EQ(echo("a\nb\x1b[2Jc"), "a?b?[2Jc");
  EXPECT_EQ(echo("größe"), "größe");
  EXPECT_EQ(echo("gr\xf6\xdf"), "gr??");
  EXPECT_EQ(echo("äöü", 4), "äö…");
  EXPECT_EQ(echo(std::string(1000, 'x')), std::string(80, 'x') + "…");
}

TEST(Echo, LeavesNothingThatATerminalObeysAndNoHalfCharacter) {
  EXPECT_EQ(echo("\xc2\x9b"
                 "2Jx"),
            "?2Jx")
      << "the control sequence introducer of one character";
  EXPECT_EQ(echo("a\xe2\x80\xae"
                 "b\xe2\x81\xa6"
                 "c"),
            "a?b?c")
      << "text from right to left";
  EXPECT_EQ(echo("\xe0\x80\x9b\xed\xa0\x80\xf4\x90\x80\x80\xf0\x9f\x98\x80"), "??????????\xf0\x9f\x98\x80");
  EXPECT_EQ(echo("\xc3"), "?");
  EXPECT_EQ(echo_lines("a\n\x1b]0;b\a\n"), "a\n?]0;b?\n");
  EXPECT_EQ(echo_lines(std::string(1000, 'x')), std::string(1000, 'x'));
}

TEST(Nearest, TakesTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> equals{"abcd", "abce"};
  EXPECT_EQ(nearest("abcf", equals), "abcd");
}

TEST(Unknown, SaysWhatThereIsAndWhatWasMeant) {
  EXPECT_EQ(unknown("model", "lennet", std::span(words).first(2)),
            "there is no model 'lennet'; did you mean 'lenet'? There are lenet, resnet20");
  EXPECT_EQ(unknown("model", "yolov5", std::span(words).first(2)),
            "there is no model 'yolov5'; there are lenet, resnet20");
  EXPECT_EQ(unknown("model", "lenet", {}), "there is no model 'lenet'");
}

TEST(Nearest, WithoutWordsIsEmpty) { EXPECT_EQ(nearest("lenet", {}), ""); }

}  // namespace
}  // namespace lockstep
