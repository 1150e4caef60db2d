// The contract over MPI: lockstep's own algorithms and the MPI library's collectives.
#include <gtest/gtest.h>

#include "backends/contract.hpp"
#include "lockstep/backends/mpi_native.hpp"
#include "lockstep/backends/mpi_plan.hpp"
#include "lockstep/platform/world.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

class PlanContract : public testing::TestWithParam<Algorithm> {};

TEST_P(PlanContract, HoldsWithShortSegments) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_plan(world.group(), world.host(), progress,
                               {.algorithm = GetParam(), .segment = {512}, .blocks_in_flight = 3});
  contract::check_all(*c);
  world.close();
}

TEST_P(PlanContract, HoldsWithTheDefaultSegment) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_plan(world.group(), world.host(), progress, {.algorithm = GetParam()});
  contract::check_all(*c);
  world.close();
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, PlanContract,
                         testing::Values(Algorithm::ring, Algorithm::double_tree, Algorithm::halving_doubling,
                                         Algorithm::recursive_doubling));

TEST(NativeContract, Holds) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_native(world.group(), world.host(), progress);
  contract::check_all(*c);
  world.close();
}

TEST(NativeContract, HoldsWhereEveryOperationIsCutIntoPieces) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_mpi_native(world.group(), world.host(), progress, {.message_limit = {4096}});
  contract::check_all(*c);
  world.close();
}

TEST(TwoCommunicators, MayBeWaitedForInDifferentOrdersOnDifferentRanks) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto first = make_mpi_plan(world.group(), world.host(), progress);
  const auto second = make_mpi_native(world.group(), world.host(), progress);
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
