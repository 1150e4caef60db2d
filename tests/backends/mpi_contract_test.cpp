// SPDX-License-Identifier: Apache-2.0
// Tests the contract over MPI: lockstep's own algorithms and the MPI library's collectives.
#include <gtest/gtest.h>

#include "backends/contract/contract.hpp"
#include "backends/make_agreed.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/algorithms.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

class PlanContract : public testing::TestWithParam<Algorithm> {};

TEST_P(PlanContract, HoldsWithShortSegments) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c =
      plan_on(world.group(), progress,
              {.selection = collectives::forced({.algorithm = GetParam(), .segment = {512}, .blocks_in_flight = 3}),
               .message_limit = {512}});
  contract::check_all(*c);
  world.close();
}

TEST_P(PlanContract, HoldsWithTheDefaultSegment) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = plan_on(world.group(), progress, {.selection = collectives::forced({.algorithm = GetParam()})});
  contract::check_all(*c);
  world.close();
}

/// Among four ranks, some messages of an operation go over sockets, and others by MPI.
TEST_P(PlanContract, HoldsOverSockets) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c =
      plan_on(world.group(), progress,
              {.selection = collectives::forced({.algorithm = GetParam(), .segment = {4096}, .blocks_in_flight = 3}),
               .message_limit = {512},
               .sockets = Sockets::everywhere});
  contract::check_all(*c);
  world.close();
}

TEST_P(PlanContract, HoldsOverSocketsWithChecksums) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = plan_on(
      world.group(), progress,
      {.selection = collectives::forced({.algorithm = GetParam()}), .sockets = Sockets::everywhere, .checksum = true});
  contract::check_all(*c);
  world.close();
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, PlanContract, testing::ValuesIn(testing_support::message_algorithms));

/// The communicator's own memory, which the node's ranks access without copies.
class OwnMemory : public contract::Memory {
 public:
  explicit OwnMemory(Communicator& communicator) : communicator_(&communicator) {}
  [[nodiscard]] Allocation allocate(Bytes bytes) const override { return communicator_->allocate(bytes); }

 private:
  Communicator* communicator_;
};

/// Allocates every third buffer in ordinary memory, different ones on different ranks.
class MixedMemory : public OwnMemory {
 public:
  MixedMemory(Communicator& communicator) : OwnMemory(communicator), next_(communicator.rank().value) {}
  [[nodiscard]] Allocation allocate(Bytes bytes) const override {
    return next_++ % 3 == 0 ? allocate_host(bytes) : OwnMemory::allocate(bytes);
  }

 private:
  mutable int next_;
};

class SharedContract : public testing::TestWithParam<Algorithm> {};

TEST_P(SharedContract, HoldsInMemoryOfTheCommunicator) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = plan_on(
      world.group(), progress,
      {.selection = collectives::forced({.algorithm = GetParam()}), .node = {.staging = {4096}, .pull_limit = {256}}});
  contract::check_all(*c, OwnMemory(*c));
  world.close();
}

TEST_P(SharedContract, HoldsInMixedMemory) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = plan_on(
      world.group(), progress,
      {.selection = collectives::forced({.algorithm = GetParam()}), .node = {.staging = {4096}, .pull_limit = {256}}});
  contract::check_all(*c, MixedMemory(*c));
  world.close();
}

TEST(ByCacheContract, HoldsInMixedMemory) {
  World world;
  Progress progress({.spins_before_yield = 0});
  PlanOptions options{.selection = collectives::forced({.algorithm = Algorithm::tree_order}),
                      .node = {.staging = {4096}, .pull_limit = {256}}};
  options.selection.ranks_per_cache = 2;
  const auto c = plan_on(world.group(), progress, options);
  contract::check_all(*c, MixedMemory(*c));
  world.close();
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, SharedContract,
                         testing::Values(Algorithm::shared_memory, Algorithm::hierarchical_ring,
                                         Algorithm::hierarchical_tree_order));

TEST(NativeContract, Holds) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_native(world.group(), progress);
  contract::check_all(*c);
  world.close();
}

TEST(NativeContract, HoldsWhereEveryOperationIsCutIntoPieces) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_native(world.group(), progress, {.message_limit = {4096}});
  contract::check_all(*c);
  world.close();
}

TEST(NativeContract, HoldsWhereRanksCompareWhatTheyCall) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_native(world.group(), progress, {.message_limit = {4096}, .check = true});
  contract::check_all(*c);
  world.close();
}

TEST(TwoCommunicators, MayBeWaitedForInDifferentOrdersOnDifferentRanks) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto first = plan_on(world.group(), progress);
  const auto second = make_mpi_native(world.group(), progress);
  std::vector<float> a(300'000, 1.0F);
  std::vector<float> b(300'000, 2.0F);
  const Buffer buffer_a{a.data(), {300'000}, DType::float32};
  const Buffer buffer_b{b.data(), {300'000}, DType::float32};
  Work work_a = first->all_reduce(buffer_a, buffer_a, ReduceOp::sum);
  Work work_b = second->all_reduce(buffer_b, buffer_b, ReduceOp::sum);
  const bool even = world.rank().value % 2 == 0;
  (even ? work_a : work_b).wait();
  (even ? work_b : work_a).wait();
  EXPECT_EQ(a[299'999], static_cast<float>(world.size()));
  EXPECT_EQ(b[0], 2.0F * static_cast<float>(world.size()));
  first->close();
  second->close();
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
