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

TEST(Nearest, TakesTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> equals{"ab", "ac"};
  EXPECT_EQ(nearest("ad", equals), "ab");
}

TEST(Unknown, SaysWhatThereIsAndWhatWasMeant) {
  EXPECT_EQ(unknown("model", "lennet", std::span(words).first(2)),
            "there is no model 'lennet'; did you mean 'lenet'? There are lenet, resnet20");
  EXPECT_EQ(unknown("model", "lenet", {}), "there is no model 'lenet'");
}

TEST(Nearest, WithoutWordsIsEmpty) { EXPECT_EQ(nearest("lenet", {}), ""); }

}  // namespace
}  // namespace lockstep
