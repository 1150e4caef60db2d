// SPDX-License-Identifier: Apache-2.0
// Tests the contract between ranks that found each other by a store: in memory of the node, and over connections.
#include <gtest/gtest.h>

#include "backends/contract/contract.hpp"
#include "backends/make_agreed.hpp"
#include "backends/on_store.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/algorithms.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

class OnOneNode : public testing::TestWithParam<Algorithm> {};
class BetweenNodes : public testing::TestWithParam<Algorithm> {};

TEST_P(OnOneNode, StoreRanksKeepTheContract) {
  World world;
  Progress progress({.spins_before_yield = 0});
  {
    const OnStore ranks(world);
    const auto c = plan_on(ranks.set(), progress, {.selection = collectives::forced({.algorithm = GetParam()})});
    contract::check_all(*c);
  }
  world.close();
}

TEST_P(BetweenNodes, StoreRanksKeepTheContract) {
  World world;
  Progress progress({.spins_before_yield = 0});
  {
    const OnStore ranks(world, 2);
    const auto c =
        plan_on(ranks.set(), progress,
                {.selection = collectives::forced({.algorithm = GetParam(), .segment = {512}, .blocks_in_flight = 3}),
                 .message_limit = {4096},
                 .checksum = true});
    contract::check_all(*c);
  }
  world.close();
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, OnOneNode, testing::ValuesIn(testing_support::algorithms_of_one_node()));
INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, BetweenNodes, testing::ValuesIn(testing_support::hierarchical_algorithms()));

TEST(StoreGroups, RefuseWhatOnlyMpiHas) {
  World world;
  {
    const OnStore ranks(world);
    Progress progress({.spins_before_yield = 0});
    CommunicatorOptions options{.method = MpiLibrary{}};
    try {
      (void)make_communicator(ranks.set(), progress, options);
      ADD_FAILURE() << "MPI's algorithms ran on ranks that it does not know";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(error.message().find("choose another algorithm than mpi"), std::string::npos) << error.message();
    }
  }
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
