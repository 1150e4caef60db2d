// SPDX-License-Identifier: Apache-2.0
#pragma once

// The contributions of ranks to a reduction in the canonical order, and its result by the CPU's kernels.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/plan/expression.hpp"
#include "kernels/awkward_elements.hpp"
#include "kernels/cuda/canonical_fold.hpp"
#include "kernels/reduce.hpp"

namespace lockstep::kernels {

struct RankedInputs {
  RankedInputs(int ranks, Count count_in, DType dtype_in, std::mt19937_64& random) : count(count_in), dtype(dtype_in) {
    for (int rank = 0; rank < ranks; ++rank) {
      of_rank.emplace_back(static_cast<std::size_t>(count.value * size_of(dtype)));
      randomize(of_rank.back(), dtype, random);
    }
  }
  [[nodiscard]] int ranks() const { return static_cast<int>(of_rank.size()); }
  /// Returns the concatenated contributions of all ranks but one.
  [[nodiscard]] std::vector<char> without(int rank) const {
    std::vector<char> rest;
    for (int other = 0; other < ranks(); ++other) {
      const std::vector<char>& input = of_rank[static_cast<std::size_t>(other)];
      if (other != rank) rest.insert(rest.end(), input.begin(), input.end());
    }
    return rest;
  }
  /// Reduces the contributions pairwise with the CPU's kernels.
  [[nodiscard]] std::vector<char> canonical_sum(ReduceOp op) const {
    return collectives::canonical_tree_fold(
        ranks(), [&](int rank) { return of_rank[static_cast<std::size_t>(rank)]; },
        [&](const std::vector<char>& a, const std::vector<char>& b) {
          std::vector<char> sum(a.size());
          reduce(sum.data(), a.data(), b.data(), count, dtype, op);
          return sum;
        });
  }

  Count count;
  DType dtype;
  std::vector<std::vector<char>> of_rank;
};

inline std::string name_of_case(const testing::TestParamInfo<std::tuple<DType, ReduceOp>>& info) {
  const auto [dtype, op] = info.param;
  return std::string(name(dtype)) + '_' + std::string(name(op));
}

}  // namespace lockstep::kernels
