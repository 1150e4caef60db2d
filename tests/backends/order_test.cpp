// SPDX-License-Identifier: Apache-2.0
// Every algorithm adds in its documented order, with threads as ranks.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "backends/stated_order.hpp"
#include "kernels/awkward_elements.hpp"
#include "kernels/convert.hpp"
#include "support/algorithms.hpp"
#include "support/local.hpp"

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
                     {.selection = collectives::forced(
                          {.algorithm = algorithm, .segment = {segment * static_cast<std::int64_t>(sizeof(float))}})});
      stated_order::check(*communicator, algorithm, segment);
      communicator->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Order, OfTheSumsIsTheOneThatTheAlgorithmStates) {
  for (const Algorithm algorithm : testing_support::algorithms_of_one_node())
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const std::int64_t segment : stated_order::segments) check(algorithm, ranks, segment);
}

TEST(Order, OfTheTreeIsCanonicalAlsoOnManyRanks) {
  for (const int ranks : {11, 13, 16}) check(Algorithm::tree_order, ranks, 64);
}

/// The ranks are on one node, on nodes of one rank each, or on nodes of equal and different sizes, laid out by core and
/// by node.
TEST(Order, OfLeavesIsCanonical) {
  for (const std::vector<int>& nodes :
       {std::vector{0}, std::vector{0, 0, 0}, std::vector{0, 1, 2}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1},
        std::vector{0, 0, 0, 1, 1}, std::vector{0, 1, 0, 1, 0, 1, 0}}) {
    const auto group = make_local_group(ClusterShape{nodes});
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
      threads.emplace_back([&, rank] {
        Progress progress({.spins_before_yield = 0});
        const auto communicator = make_local(group, {rank}, progress, {});
        stated_order::check_leaves(*communicator);
        communicator->close();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

template <typename T>
std::vector<T> converted(const std::vector<float>& values) {
  if constexpr (std::is_floating_point_v<T>) {
    return {values.begin(), values.end()};
  } else {
    std::vector<T> result(values.size());
    kernels::convert(std::span<const float>(values), std::span<T>(result));
    return result;
  }
}

/// Replaces every eleventh value: zeros of both signs, NaNs of several payloads and signs, and others.
template <typename T>
void add_awkward(std::vector<T>& values, DType dtype, int rank) {
  std::mt19937_64 random(static_cast<unsigned>(rank));
  for (std::size_t i = 0; i < values.size(); i += 11) {
    const std::uint64_t bits = kernels::awkward(dtype, random());
    std::memcpy(&values[i], &bits, sizeof values[i]);
  }
}

/// Returns what an all-reduce of random values leaves on rank 0.
template <typename T>
std::vector<std::byte> reduced(Algorithm algorithm, const ClusterShape& shape, DType dtype, ReduceOp op,
                               int ranks_per_cache = 0, std::int64_t count = 5003) {
  const auto group = make_local_group(shape);
  std::vector<std::byte> kept;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      Progress progress({.spins_before_yield = 0});
      PlanOptions options{.selection = collectives::forced({.algorithm = algorithm, .segment = {4096}})};
      options.selection.ranks_per_cache = ranks_per_cache;
      const auto communicator = make_local(group, {rank}, progress, options);
      std::vector<T> values = converted<T>(stated_order::input_of(rank, count));
      add_awkward(values, dtype, rank);
      const Buffer buffer{values.data(), {count}, dtype};
      communicator->all_reduce(buffer, buffer, op).wait();
      const auto bytes = std::as_bytes(std::span(values));
      if (rank == 0) kept.assign(bytes.begin(), bytes.end());
      communicator->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return kept;
}

template <typename T>
void expect_the_same_on_any_medium(DType dtype) {
  for (const ClusterShape& shape : {ClusterShape{{0, 0, 0}}, ClusterShape{{0, 0, 0, 0, 0, 0, 0}},
                                    ClusterShape{{0, 0, 1, 1, 2}}, ClusterShape{{0, 0, 0, 0, 1, 1, 1}}}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      EXPECT_EQ(reduced<T>(Algorithm::hierarchical_tree_order, shape, dtype, op),
                reduced<T>(Algorithm::tree_order, shape, dtype, op))
          << name(op) << " of " << name(dtype) << ", " << shape.ranks() << " ranks on " << shape.nodes() << " nodes";
    }
  }
}

TEST(Order, OfTheTreeGivesTheSameBitsInSharedMemoryAndByMessages) {
  expect_the_same_on_any_medium<float>(DType::float32);
  expect_the_same_on_any_medium<double>(DType::float64);
  expect_the_same_on_any_medium<float16>(DType::float16);
  expect_the_same_on_any_medium<bfloat16>(DType::bfloat16);
}

TEST(Order, OfTheTreeGivesTheSameBitsByCache) {
  for (const int ranks : {6, 16, 17})
    for (const std::int64_t count : {1, 7, 400, 5003})
      for (const int ranks_per_cache : {2, 4, 5}) {
        const ClusterShape shape{std::vector<int>(static_cast<std::size_t>(ranks))};
        const auto bits = [&](Algorithm algorithm, int width) {
          return reduced<float>(algorithm, shape, DType::float32, ReduceOp::sum, width, count);
        };
        EXPECT_EQ(bits(Algorithm::hierarchical_tree_order, ranks_per_cache), bits(Algorithm::tree_order, 0))
            << ranks << " ranks, " << ranks_per_cache << " of each cache, " << count << " elements";
      }
}

/// If the order did not matter, the tests above could not fail. (On 7 ranks, folded neighbors happen to form the
/// canonical tree.)
TEST(Order, MattersForTheseData) {
  const auto inputs = stated_order::inputs_of(5, 1009);
  const auto canonical = stated_order::bits(stated_order::canonical_sums(inputs));
  for (const Algorithm algorithm : testing_support::algorithms_of_one_node()) {
    const auto sums = stated_order::bits(stated_order::stated_sums(algorithm, 64, inputs));
    EXPECT_EQ(sums == canonical, is_canonical(algorithm)) << name(algorithm);
  }
}

}  // namespace
}  // namespace lockstep::backends
