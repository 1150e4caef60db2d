// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/proof/simulator.hpp"
#include "collectives/schedule/schedule.hpp"
#include "support/algorithms.hpp"

namespace lockstep::collectives {

using testing_support::message_algorithms;

/// How others reach the data of each rank; the list repeats.
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

/// Returns the counts of parts that one rank sends.
inline std::vector<std::int64_t> sent_by(const Trial& trial, int rank, int ranks) {
  if (trial.kind != CollectiveKind::all_to_all_v) return trial.parts;
  const auto row = trial.parts.begin() + static_cast<std::ptrdiff_t>(rank) * ranks;
  return {row, row + ranks};
}
inline std::vector<std::int64_t> received_by(const Trial& trial, int rank, int ranks) {
  std::vector<std::int64_t> column;
  if (trial.kind == CollectiveKind::all_to_all_v)
    for (int from = 0; from < ranks; ++from)
      column.push_back(trial.parts[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
                                   static_cast<std::size_t>(rank)]);
  return column;
}

/// Gives a trial's parts different lengths. They include 0, except in the last two of five patterns.
inline Trial with_parts(Trial trial, int ranks, int pattern) {
  const auto p = static_cast<std::size_t>(ranks);
  const std::size_t all = trial.kind == CollectiveKind::all_to_all_v ? p * p : p;
  const std::int64_t n = trial.count.value;
  const std::array<std::int64_t, 5> some{n, 0, n / 2, 1, n};
  const std::array<std::int64_t, 3> none_empty{n, 1, (n + 1) / 2};
  for (std::size_t k = 0; k < all; ++k) {
    if (pattern == 3) trial.parts.push_back(n);
    if (pattern == 4) trial.parts.push_back(none_empty[k % none_empty.size()]);
    if (pattern < 3)
      trial.parts.push_back(some[(pattern == 0 ? k : pattern == 1 ? k * 3 + 1 : k / 7 * 5 + 1) % some.size()]);
  }
  return trial;
}

/// Returns the plans of all ranks in a trial.
inline std::vector<Plan> plans_of(const Trial& trial, int ranks, Algorithm algorithm = Algorithm::ring,
                                  const ClusterShape& shape = {}, const Reaches& reaches = {Reach::direct},
                                  int radix = 2, int ranks_per_cache = 0) {
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
                               .reach = reaches[static_cast<std::size_t>(rank) % reaches.size()],
                               .ranks_per_cache = ranks_per_cache,
                               .parts = sent_by(trial, rank, ranks),
                               .received = received_by(trial, rank, ranks)},
                              algorithm));
  }
  return plans;
}

/// Returns the counts 0 and 1, counts around the number of ranks, a prime and a large one. Beyond 24 ranks, where plans
/// are long, all seven are used only next to powers of two. Otherwise there are three: fewer than ranks, slightly more,
/// and many.
inline std::set<std::int64_t> counts_for(int ranks) {
  if (ranks <= 24 || (ranks >= 31 && ranks <= 33) || ranks >= 63)
    return {0, 1, ranks - 1, ranks, ranks + 1, 1009, (1 << 20) + 3};
  return {1, ranks + 1, (1 << 20) + 3};
}

/// Returns the rank counts up to `most`. Beyond 24 ranks and with a reach other than direct, only those next to powers
/// of two are used, because the reach only changes where a rank puts its data, whatever the number of ranks.
inline std::vector<int> ranks_for(const Reaches& reaches, int most) {
  const bool all = reaches == Reaches{Reach::direct};
  std::vector<int> ranks;
  for (int n = 1; n <= most; ++n)
    if (all || n <= 24 || (n >= 31 && n <= 33) || n >= 63) ranks.push_back(n);
  return ranks;
}

/// Returns the closed formula of an all-reduce by messages.
inline double all_reduce_seconds(Algorithm algorithm, int ranks, Bytes buffer, const Links& links, int radix = 2) {
  return row_of(algorithm).seconds(ranks, buffer, links, radix);
}

inline testing::AssertionResult is_right(const Simulation& simulation) {
  if (!simulation.fault) return testing::AssertionSuccess();
  const Fault& fault = *simulation.fault;
  return testing::AssertionFailure() << name(fault.kind) << " at rank " << fault.rank << ", step " << fault.step << ": "
                                     << fault.text;
}

inline void PrintTo(Algorithm algorithm, std::ostream* out) { *out << name(algorithm); }
inline void PrintTo(FaultKind kind, std::ostream* out) { *out << name(kind); }

/// Returns each rank's contribution to an all-reduce: the sum of its leaves.
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

/// Returns "ring", "halving_doubling", …, because GoogleTest allows only letters, digits and underscores.
inline std::string test_name(const testing::TestParamInfo<Algorithm>& info) {
  std::string text(name(info.param));
  for (char& c : text)
    if (c == '-') c = '_';
  return text;
}

}  // namespace lockstep::collectives
