// SPDX-License-Identifier: Apache-2.0
// Every algorithm adds in its documented order, over MPI.
#include <gtest/gtest.h>

#include "backends/make_agreed.hpp"
#include "backends/stated_order.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/algorithms.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

TEST(MpiOrder, OfTheSumsIsTheOneThatTheAlgorithmStates) {
  World world;
  Progress progress({.spins_before_yield = 0});
  for (const Algorithm algorithm : testing_support::algorithms_of_one_node())
    for (const std::int64_t segment : stated_order::segments) {
      const auto c =
          plan_on(world.group(), progress,
                  {.selection = collectives::forced(
                       {.algorithm = algorithm, .segment = {segment * static_cast<std::int64_t>(sizeof(float))}})});
      stated_order::check(*c, algorithm, segment);
      c->close();
    }
  world.close();
}

/// The bits are those of the tree over the leaves, however the leaves are distributed.
TEST(MpiOrder, OfLeavesIsCanonical) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_agreed(world.group(), progress, {});
  stated_order::check_leaves(*c);
  c->close();
  world.close();
}

/// The algorithm is requested by name, with default options, as users do.
TEST(MpiOrder, OfTheTreeIsTheSingleProcessSum) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = make_agreed(world.group(), progress, {.method = parse_method("tree-order")});
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{300'007}}) {
    const auto expected = stated_order::canonical_sums(stated_order::inputs_of(c->size(), count));
    EXPECT_EQ(stated_order::bits(stated_order::all_reduced(*c, count)), stated_order::bits(expected));
  }
  c->close();
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
