// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep {
namespace {

TEST(Place, NodesAreNumberedByTheirLowestRank) {
  EXPECT_EQ(number_nodes(std::vector<int>{7, 3, 7, 5, 3}).node_of_rank, (std::vector<int>{0, 1, 0, 2, 1}));
  EXPECT_EQ(number_nodes(std::vector<int>{}).ranks(), 0);
}

TEST(Place, LocalRanksCountWithinTheNode) {
  const ClusterShape shape = number_nodes(std::vector<int>{7, 3, 7, 5, 3, 7});
  const Place last = place_of(shape, Rank{5});
  EXPECT_EQ(last.node, 0);
  EXPECT_EQ(last.local_rank, 2);
  EXPECT_EQ(last.local_size, 3);
  const Place alone = place_of(shape, Rank{3});
  EXPECT_EQ(alone.node, 2);
  EXPECT_EQ(alone.local_rank, 0);
  EXPECT_EQ(alone.local_size, 1);
}

TEST(Place, RefusesARankOutsideTheCluster) {
  EXPECT_EQ(code_of([&] { (void)place_of(ClusterShape{{0, 0}}, Rank{2}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)place_of(ClusterShape{{0, 0}}, Rank{-1}); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace lockstep
