// SPDX-License-Identifier: Apache-2.0
#include "base/wrapped.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(FormatText, HasAnyLength) {
  EXPECT_EQ(format_text("%d of %s, %.2f", 3, "four", 0.5), "3 of four, 0.50");
  EXPECT_EQ(format_text("%1000s|", "x").size(), 1001U);
  EXPECT_EQ(format_text("%s", ""), "");
}

TEST(Wrapped, ALineThatFitsStays) {
  EXPECT_EQ(wrapped("one two", 7), "one two\n");
  EXPECT_EQ(wrapped("", 7), "\n");
  EXPECT_EQ(wrapped("2 × three", 9), "2 × three\n") << "× takes one column";
}

TEST(Wrapped, ALongLineIsBrokenAtSpacesAndIndented) {
  EXPECT_EQ(wrapped("one two three", 9), "one two\n  three\n");
  EXPECT_EQ(wrapped("one two three four", 9, 4), "one two\n    three\n    four\n");
  EXPECT_EQ(wrapped("    1  one two", 10, 7), "    1  one\n       two\n") << "what is left of the text stays together";
}

TEST(Wrapped, ListsWithoutSpacesAreBrokenBehindCommas) {
  EXPECT_EQ(wrapped("cores 0,2,4,6,8", 10), "cores 0,2,\n  4,6,8\n");
}

TEST(Wrapped, AWordThatIsTooLongStaysWhole) {
  EXPECT_EQ(wrapped("incomprehensible word", 8), "incomprehensible\n  word\n");
  EXPECT_EQ(wrapped("incomprehensible", 8), "incomprehensible\n");
}

TEST(Padded, CountsCharacters) {
  EXPECT_EQ(padded("3×3", 5), "3×3  ");
  EXPECT_EQ(padded("longer", 3), "longer");
}

}  // namespace
}  // namespace lockstep
