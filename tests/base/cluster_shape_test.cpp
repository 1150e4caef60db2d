// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cluster_shape.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ClusterShape, CountsNodesAndFindsTheirRanks) {
  const ClusterShape shape{{0, 1, 0, 1, 1}};
  EXPECT_EQ(shape.ranks(), 5);
  EXPECT_EQ(shape.nodes(), 2);
  EXPECT_EQ(shape.ranks_on(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(shape.ranks_on(1), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(ClusterShape{}.nodes(), 0);
}

}  // namespace
}  // namespace lockstep
