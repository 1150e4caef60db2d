// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "collectives/algorithms/schedule.hpp"
#include "collectives/proof/simulator.hpp"

namespace lockstep::collectives {

inline constexpr std::array all_algorithms{Algorithm::ring, Algorithm::double_tree, Algorithm::halving_doubling,
                                           Algorithm::recursive_doubling, Algorithm::tree_order};

/// How others reach the data of each rank, in turn.
using Reaches = std::vector<Reach>;

inline std::vector<ClusterShape> equal_and_unequal_nodes() {
  return {{{0, 0, 0, 0}},
          {{0, 1}},
          {{0, 0, 1, 1}},
          {{0, 1, 0, 1}},
          {{0, 0, 0, 1, 1}},
          {{0, 1, 1, 1, 2, 2}},
          {{0, 0, 1, 1, 2, 2, 3, 3}},
          {{0, 1, 2, 0, 1, 2, 0, 1, 2, 0}},
          {{0, 0, 0, 1, 2}}};
}

/// The plans of all ranks in a trial.
inline std::vector<Plan> plans_of(const Trial& trial, int ranks, Algorithm algorithm = Algorithm::ring,
                                  const ClusterShape& shape = {}, const Reaches& reaches = {Reach::direct},
                                  int radix = 2) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) {
    const int leaves = trial.leaves.empty() ? 1 : trial.leaves[static_cast<std::size_t>(rank)];
    plans.push_back(make_plan({rank},
                              {.kind = trial.kind,
                               .ranks = ranks,
                               .count = trial.count,
                               .root = trial.root,
                               .own = {.leaves = leaves, .in_place = trial.in_place},
                               .radix = radix,
                               .shape = shape,
                               .reach = reaches[static_cast<std::size_t>(rank) % reaches.size()]},
                              algorithm));
  }
  return plans;
}

/// 0, 1, around the number of ranks, prime, large.
/// Beyond 24 ranks, where plans are long, all seven only beside powers of two; else fewer than there are ranks, a few
/// more than there are, and many.
inline std::set<std::int64_t> counts_for(int ranks) {
  if (ranks <= 24 || (ranks >= 31 && ranks <= 33) || ranks >= 63)
    return {0, 1, ranks - 1, ranks, ranks + 1, 1009, (1 << 20) + 3};
  return {1, ranks + 1, (1 << 20) + 3};
}

/// All up to `most`. Of those beyond 24 for another reach than direct only those beside powers of two: plans differ by
/// reach in where a rank puts what it shows, whatever their number.
inline std::vector<int> ranks_for(const Reaches& reaches, int most) {
  const bool all = reaches == Reaches{Reach::direct};
  std::vector<int> ranks;
  for (int n = 1; n <= most; ++n)
    if (all || n <= 24 || (n >= 31 && n <= 33) || n >= 63) ranks.push_back(n);
  return ranks;
}

inline testing::AssertionResult is_right(const Simulation& simulation) {
  if (!simulation.fault) return testing::AssertionSuccess();
  const Fault& fault = *simulation.fault;
  return testing::AssertionFailure() << name(fault.kind) << " at rank " << fault.rank << ", step " << fault.step << ": "
                                     << fault.text;
}

inline void PrintTo(Algorithm algorithm, std::ostream* out) { *out << name(algorithm); }
inline void PrintTo(FaultKind kind, std::ostream* out) { *out << name(kind); }

/// What each rank brings to an all-reduce: the sum of its leaves.
inline std::vector<Expression> contributions(Expressions& expressions, const Trial& trial, int ranks) {
  std::vector<Expression> result;
  int next_leaf = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int leaves = trial.leaves.empty() ? 1 : trial.leaves[static_cast<std::size_t>(rank)];
    std::vector<Expression> own;
    for (int i = 0; i < leaves; ++i) own.push_back(expressions.leaf(next_leaf++));
    result.push_back(expressions.left_fold(own));
  }
  return result;
}

/// "ring", "halving_doubling", …: GoogleTest wants letters, digits and underscores.
inline std::string test_name(const testing::TestParamInfo<Algorithm>& info) {
  std::string text(name(info.param));
  for (char& c : text)
    if (c == '-') c = '_';
  return text;
}

}  // namespace lockstep::collectives
