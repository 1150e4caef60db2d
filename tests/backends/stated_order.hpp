// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks that a communicator adds in its algorithm's documented order: random float32 data, compared bit for bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan/expression.hpp"
#include "collectives/schedule/schedule.hpp"
#include "lockstep/comm/communicator.hpp"
#include "support/algorithms.hpp"

namespace lockstep::stated_order {

inline constexpr std::int64_t segments[] = {7, 64, 4096};  // unit: elements
inline std::vector<std::int64_t> counts(int ranks) { return {1, ranks, ranks + 1, 97, 1009, 5003}; }

/// Returns values of both signs and over seven orders of magnitude, so that sums in different orders differ. They are
/// the same wherever they are drawn.
inline std::vector<float> input_of(int rank, std::int64_t count) {
  std::mt19937 generator(static_cast<unsigned>(7919 * (rank + 1)));
  std::uniform_real_distribution<float> exponent(-3, 4);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const float magnitude = std::pow(10.0F, exponent(generator));
    value = generator() % 2 == 0 ? magnitude : -magnitude;
  }
  return values;
}

inline std::vector<std::vector<float>> inputs_of(int ranks, std::int64_t count) {
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(input_of(rank, count));
  return inputs;
}

/// Returns the sums in the algorithm's documented order, computed here.
inline std::vector<float> stated_sums(collectives::Algorithm algorithm, std::int64_t segment,
                                      const std::vector<std::vector<float>>& inputs) {
  const int ranks = static_cast<int>(inputs.size());
  const Count count{static_cast<std::int64_t>(inputs[0].size())};
  const auto schedule = make_schedule({0}, {.ranks = ranks, .count = count}, algorithm, {segment});
  collectives::Expressions expressions;
  std::vector<collectives::Expression> leaves;
  for (int rank = 0; rank < ranks; ++rank) leaves.push_back(expressions.leaf(rank));
  std::vector<float> sums;
  for (std::int64_t b = 0; b < schedule.size(); ++b) {
    const collectives::Block block = schedule.block(b);
    for (std::int64_t i = 0; i < block.count; ++i) {
      const auto order = all_reduce_order(algorithm, expressions, leaves, {block.count}, i);
      const auto at = static_cast<std::size_t>(block.offset + i);
      sums.push_back(expressions.fold<float>(
          order, -0.0F, [&](int leaf) { return inputs[static_cast<std::size_t>(leaf)][at]; }, std::plus<>()));
    }
  }
  return sums;
}

inline std::vector<float> canonical_sums(const std::vector<std::vector<float>>& inputs) {
  const std::vector<std::span<const float>> views(inputs.begin(), inputs.end());
  std::vector<float> sums(inputs[0].size());
  collectives::canonical_tree_reduce<float>(views, sums);
  return sums;
}

inline std::vector<float> all_reduced(Communicator& c, std::int64_t count) {
  std::vector<float> values = input_of(c.rank().value, count);
  const Buffer buffer{values.data(), {count}, DType::float32};
  c.all_reduce(buffer, buffer, ReduceOp::sum).wait();
  return values;
}

inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

/// @param c  a communicator that runs `algorithm` with messages of `segment` elements
inline void check(Communicator& c, collectives::Algorithm algorithm, std::int64_t segment) {
  for (const std::int64_t count : counts(c.size())) {
    SCOPED_TRACE(std::string(name(algorithm)) + ", rank " + std::to_string(c.rank().value) + " of " +
                 std::to_string(c.size()) + ", count " + std::to_string(count) + ", segment " +
                 std::to_string(segment));
    const auto inputs = inputs_of(c.size(), count);
    const auto result = bits(all_reduced(c, count));
    ASSERT_EQ(result, bits(stated_sums(algorithm, segment, inputs)));
    if (is_canonical(algorithm)) {
      ASSERT_EQ(result, bits(canonical_sums(inputs)));
    }
  }
}

/// Checks the result of the canonical tree over `leaves` random leaves, of which this rank adds up its own.
/// @param where  memory for its sums, of `stride` elements each
inline void check_leaves(Communicator& c, const LeafShares& shares, std::int64_t count, bool in_place,
                         const Buffer& where, std::int64_t stride) {
  const int leaves = shares.total();
  SCOPED_TRACE(std::to_string(leaves) + " leaves, rank " + std::to_string(c.rank().value) + " of " +
               std::to_string(c.size()) + ", count " + std::to_string(count) + (in_place ? ", in place" : ""));
  const auto inputs = inputs_of(leaves, count);
  auto* const sums = static_cast<float*>(where.data);
  std::size_t sum = 0;
  for (const LeafNode& node : tree_nodes(leaves, shares.of(c.rank().value, c.size()))) {
    const std::span<const std::vector<float>> below(inputs.data() + node.first, static_cast<std::size_t>(node.leaves));
    const auto own = canonical_sums({below.begin(), below.end()});
    std::copy(own.begin(), own.end(), sums + static_cast<std::ptrdiff_t>(sum++) * stride);
  }
  std::vector<float> apart(in_place ? 0 : static_cast<std::size_t>(count));
  const Buffer first{sums, {count}, DType::float32};
  const Buffer out = in_place ? first : Buffer{apart.data(), {count}, DType::float32};
  c.all_reduce(first, out, ReduceOp::sum, Leaves{shares, {stride}}, Queue::host(), "leaves").wait();
  const auto* const result = static_cast<const float*>(out.data);
  ASSERT_EQ(bits({result, result + count}), bits(canonical_sums(inputs)));
}

/// Checks many numbers of leaves, in the program's memory and in the communicator's.
inline void check_leaves(Communicator& c) {
  constexpr std::int64_t most = 50'021;
  constexpr int sums = 8;
  std::vector<float> own(static_cast<std::size_t>(sums * most));
  const Allocation shared = c.allocate({sums * most * static_cast<std::int64_t>(sizeof(float))});
  for (const int leaves : {c.size(), c.size() + 1, 8, 13, 16}) {
    if (leaves < c.size()) continue;
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{97}, std::int64_t{1009}, most})
      for (const bool in_place : {true, false}) {
        if (count == most && leaves != 13) continue;  // blocks have the same plan
        check_leaves(c, leaves, count, in_place, {own.data(), {sums * most}, DType::float32}, count + count % 2);
        check_leaves(c, leaves, count, in_place, shared.as(DType::float32), most);
      }
  }
  std::vector<int> uneven(static_cast<std::size_t>(c.size()), 2);
  for (const int more : {5, 3}) {
    uneven.front() += more;
    std::reverse(uneven.begin(), uneven.end());
    check_leaves(c, LeafShares(uneven), 1009, true, shared.as(DType::float32), most);
  }
}

}  // namespace lockstep::stated_order
