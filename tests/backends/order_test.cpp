// Every algorithm adds in the order it states, over threads as ranks.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backends/stated_order.hpp"
#include "lockstep/backends/local.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

void check(Algorithm algorithm, int ranks, std::int64_t segment) {
  const auto group = make_local_group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress({.spins_before_yield = 0});
      const auto communicator =
          make_local(group, {rank}, progress,
                     {.algorithm = algorithm, .segment = {segment * static_cast<std::int64_t>(sizeof(float))}});
      stated_order::check(*communicator, algorithm, segment);
      communicator->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Order, OfTheSumsIsTheOneThatTheAlgorithmStates) {
  for (const Algorithm algorithm : stated_order::all_algorithms)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const std::int64_t segment : stated_order::segments) check(algorithm, ranks, segment);
}

TEST(Order, OfTheTreeIsCanonicalAlsoOnManyRanks) {
  for (const int ranks : {11, 13, 16}) check(Algorithm::tree_order, ranks, 64);
}

/// Without this the tests above could not fail. (On 7 ranks, folded neighbours happen to make the canonical tree.)
TEST(Order, MattersForTheseData) {
  const auto inputs = stated_order::inputs_of(5, 1009);
  const auto canonical = stated_order::bits(stated_order::canonical_sums(inputs));
  for (const Algorithm algorithm : stated_order::all_algorithms) {
    const auto sums = stated_order::bits(stated_order::stated_sums(algorithm, 64, inputs));
    EXPECT_EQ(sums == canonical, algorithm == Algorithm::tree_order) << name(algorithm);
  }
}

}  // namespace
}  // namespace lockstep::backends
