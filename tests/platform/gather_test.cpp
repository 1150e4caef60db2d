// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "mpi/cluster_view.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "support/on_processor.hpp"

namespace lockstep {
namespace {

class GatherTest : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }
  World world_;
  Topology topology_ = discover_topology();
};

TEST_F(GatherTest, TheNodeSeesEveryRanksBinding) {
  const NodeView node = gather_node(world_, topology_);
  ASSERT_EQ(node.bound_pus.size(), static_cast<std::size_t>(world_.size()));
  EXPECT_EQ(node.bound_pus[static_cast<std::size_t>(world_.place().local_rank)], topology_.bound_pus);
  EXPECT_EQ(node.gpu.has_value(), !topology_.gpus.empty());
  EXPECT_EQ(node.spins_before_yield == 0, oversubscribed(node.bound_pus));
}

TEST_F(GatherTest, MoreThreadsThanProcessorsYieldAtOnce) {
  EXPECT_EQ(gather_node(world_, topology_, topology_.pus.size() + 1).spins_before_yield, 0);
}

bool take_turns(const RankSet& group) {
  Agreement agreement;
  add_binding(agreement, group.size());
  agreement.exchange(group);
  return take_turns(agreement);
}

TEST_F(GatherTest, RanksTakeTurnsIfTheyAreBoundToFewerProcessorsThanThereAreRanks) {
  EXPECT_EQ(bound_pus(), topology_.bound_pus);
  EXPECT_EQ(take_turns(world_.group()), oversubscribed(gather_node(world_, topology_).bound_pus));
  const std::vector<int>& pus = topology_.pus.numbers();
  {
    const testing_support::OnProcessor same(pus.front());
    EXPECT_EQ(bound_pus(), CpuSet({pus.front()}));
    EXPECT_EQ(take_turns(world_.group()), world_.size() > 1);
  }
  if (world_.size() > topology_.pus.size()) return;
  const testing_support::OnProcessor own(pus[static_cast<std::size_t>(world_.rank().value)]);
  EXPECT_FALSE(take_turns(world_.group()));
}

TEST_F(GatherTest, RankZeroSeesTheCluster) {
  const auto pids = all_gather_numbers(world_.group(), getpid());
  const auto view = gather_cluster(world_, topology_, gather_node(world_, topology_));
  ASSERT_EQ(view.has_value(), world_.rank() == Rank{0});
  if (!view) return;
  ASSERT_EQ(view->hosts.size(), 1U);
  EXPECT_EQ(view->hosts[0].name, world_.host());
  EXPECT_EQ(view->hosts[0].topology.cores, topology_.cores);
  ASSERT_EQ(view->processes.size(), pids.size());
  for (std::size_t rank = 0; rank < pids.size(); ++rank) {
    EXPECT_EQ(view->processes[rank].rank, static_cast<int>(rank));
    EXPECT_EQ(view->processes[rank].pid, pids[rank]);
  }
}

}  // namespace
}  // namespace lockstep
