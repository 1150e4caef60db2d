// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

TEST(Algorithm, NamesAreParsedBack) {
  for (const Algorithm algorithm : all_algorithms) EXPECT_EQ(parse_algorithm(name(algorithm)), algorithm);
}

/// Users and tuning tables write these names.
TEST(Algorithm, NamesAreThoseOfTheRows) {
  EXPECT_EQ(name(Algorithm::double_tree), "tree");
  EXPECT_EQ(name(Algorithm::tree_order), "tree-order");
  EXPECT_EQ(name(Algorithm::shared_memory), "shared-memory");
  EXPECT_EQ(name(Algorithm::hierarchical_double_tree), "hierarchical-tree");
  EXPECT_EQ(name(Algorithm::hierarchical_recursive_doubling), "hierarchical-recursive-doubling");
}

TEST(Algorithm, OfAHierarchyIsThatBetweenNodes) {
  for (const Algorithm algorithm : message_algorithms) {
    EXPECT_EQ(across_nodes(algorithm), algorithm);
    EXPECT_FALSE(uses_shared_memory(algorithm));
  }
  EXPECT_EQ(across_nodes(Algorithm::hierarchical_ring), Algorithm::ring);
  EXPECT_EQ(across_nodes(Algorithm::hierarchical_tree_order), Algorithm::tree_order);
  EXPECT_EQ(across_nodes(Algorithm::shared_memory), Algorithm::shared_memory);
  EXPECT_TRUE(uses_shared_memory(Algorithm::shared_memory));
  EXPECT_TRUE(uses_shared_memory(Algorithm::hierarchical_ring));
}

TEST(Algorithm, UnknownNameIsRefusedWithTheNearest) {
  try {
    parse_algorithm("halving-dubling");
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    std::string known;
    for (const std::string_view name : algorithm_names()) known += (known.empty() ? "" : ", ") + std::string(name);
    EXPECT_EQ(error.message(),
              "there is no algorithm 'halving-dubling'; did you mean 'halving-doubling'? There are " + known);
  }
}

}  // namespace
}  // namespace lockstep::collectives
