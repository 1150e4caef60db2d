// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/expression.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>

namespace lockstep::collectives {
namespace {

TEST(Expressions, DifferByTheOrderOfOperands) {
  Expressions e;
  const Expression a = e.leaf(0);
  const Expression b = e.leaf(1);
  const Expression c = e.leaf(2);
  EXPECT_EQ(e.combine(a, b), e.combine(a, b));
  EXPECT_NE(e.combine(a, b), e.combine(b, a));
  EXPECT_NE(e.combine(e.combine(a, b), c), e.combine(a, e.combine(b, c)));
}

TEST(Expressions, PrintTheFirstOperandFirst) {
  Expressions e;
  const Expression inner = e.combine(e.leaf(3), e.leaf(1));
  EXPECT_EQ(e.to_string(e.combine(e.leaf(2), inner)), "2+(3+1)");
  EXPECT_EQ(e.to_string(Expressions::neutral()), "neutral");
}

TEST(Expressions, NeutralElementVanishes) {
  Expressions e;
  EXPECT_EQ(e.combine(e.leaf(4), Expressions::neutral()), e.leaf(4));
  EXPECT_EQ(e.left_fold({}), Expressions::neutral());
}

TEST(Expressions, CountLeavesAsOftenAsTheyOccur) {
  Expressions e;
  const Expression twice = e.combine(e.leaf(1), e.combine(e.leaf(0), e.leaf(1)));
  EXPECT_EQ(e.leaves(twice), (std::vector<int>{0, 1, 1}));
  Expression huge = e.leaf(0);
  for (int i = 0; i < 100; ++i) huge = e.combine(huge, huge);
  EXPECT_EQ(e.size(huge), std::int64_t{1} << 31);
}

TEST(Expressions, FoldInTheirOrder) {
  Expressions e;
  const std::array values{1e8F, 1.0F, -1e8F};
  const auto fold = [&](Expression tree) {
    return e.fold<float>(
        tree, 0.0F, [&](int leaf) { return values[static_cast<std::size_t>(leaf)]; }, std::plus<float>());
  };
  EXPECT_EQ(fold(e.combine(e.combine(e.leaf(0), e.leaf(1)), e.leaf(2))), 0.0F);
  EXPECT_EQ(fold(e.combine(e.combine(e.leaf(0), e.leaf(2)), e.leaf(1))), 1.0F);
  EXPECT_EQ(fold(Expressions::neutral()), 0.0F);
}

}  // namespace
}  // namespace lockstep::collectives
