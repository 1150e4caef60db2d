// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/algorithm.hpp"

#include <gtest/gtest.h>

#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

TEST(Algorithm, NamesAreParsedBack) {
  for (const Algorithm algorithm : all_algorithms) EXPECT_EQ(parse_algorithm(name(algorithm)), algorithm);
}

TEST(Algorithm, UnknownNameIsRefusedWithTheNearest) {
  try {
    parse_algorithm("halving-dubling");
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error.message(),
              "there is no algorithm 'halving-dubling'; did you mean 'halving-doubling'? There are ring, tree, "
              "halving-doubling, recursive-doubling, tree-order, shared-memory, hierarchical-ring, hierarchical-tree, "
              "hierarchical-halving-doubling, hierarchical-recursive-doubling, hierarchical-tree-order");
  }
}

}  // namespace
}  // namespace lockstep::collectives
