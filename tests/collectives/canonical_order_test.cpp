// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan/expression.hpp"

namespace lockstep::collectives {
namespace {

std::string in_print(int leaves) {
  return canonical_tree_fold(
      leaves, [](int leaf) { return std::to_string(leaf); },
      [](const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; });
}

TEST(CanonicalOrder, SplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(canonical_split(2), 1);
  EXPECT_EQ(canonical_split(3), 2);
  EXPECT_EQ(canonical_split(4), 2);
  EXPECT_EQ(canonical_split(5), 4);
  EXPECT_EQ(canonical_split(1024), 512);
  EXPECT_EQ(canonical_split(1025), 1024);
}

TEST(CanonicalOrder, IsLeftComplete) {
  EXPECT_EQ(in_print(1), "0");
  EXPECT_EQ(in_print(3), "((0+1)+2)");
  EXPECT_EQ(in_print(6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(in_print(7), "(((0+1)+(2+3))+((4+5)+6))");
}

/// Every aligned block whose size is a power of two is a subtree, so a rank that has these leaves can add them alone.
TEST(CanonicalOrder, HasEveryAlignedBlockAsASubtree) {
  Expressions e;
  for (int leaves = 1; leaves <= 40; ++leaves)
    for (int size = 2; size <= leaves; size *= 2)
      for (int first = 0; first + size <= leaves; first += size) {
        std::vector<Expression> all;
        for (int i = 0; i < leaves; ++i) all.push_back(e.leaf(i));
        const Expression whole = canonical_tree_order(e, all);
        // In the tree, one leaf that stands for the block's sum, and neutral elements, take the block's place.
        std::vector<Expression> joined = all;
        joined[static_cast<std::size_t>(first)] = canonical_tree_order(
            e, std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size)));
        for (int i = first + 1; i < first + size; ++i) joined[static_cast<std::size_t>(i)] = Expressions::neutral();
        EXPECT_EQ(canonical_tree_order(e, joined), whole) << size << " of " << leaves << " from " << first;
      }
}

TEST(CanonicalOrder, ReducesBuffersElementByElementAlsoInPlace) {
  std::array<float, 2> a{1e8F, 1};
  const std::array<float, 2> b{1, 2};
  const std::array<float, 2> c{-1e8F, 4};
  const std::array<std::span<const float>, 3> inputs{a, b, c};
  canonical_tree_reduce<float>(inputs, a);
  EXPECT_EQ(a[0], (1e8F + 1.0F) - 1e8F);
  EXPECT_EQ(a[1], 7);
}

TEST(CanonicalOrder, TakesOtherOperatorsThanTheSum) {
  const std::array<int, 1> a{3};
  const std::array<int, 1> b{9};
  const std::array<std::span<const int>, 2> inputs{a, b};
  std::array<int, 1> result{};
  canonical_tree_reduce<int>(inputs, result, [](int x, int y) { return std::max(x, y); });
  EXPECT_EQ(result[0], 9);
}

}  // namespace
}  // namespace lockstep::collectives
