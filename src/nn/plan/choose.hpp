// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/base/types.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// The rules by which the fastest of several entrants is determined.
struct ContestRules {
  int rounds = 15;       ///< number of rounds; every entrant has one turn in each
  int least_rounds = 3;  ///< with fewer rounds there is no result
  double margin = 0.03;  ///< the fraction of the first entrant's time by which another one must be faster
};

/// Returns the entrant with the smallest lower quartile of its turns. The first entrant wins unless another is faster
/// by the margin.
/// @param entrants  ≥ 1
/// @param take      runs an entrant's turn and returns its seconds
/// @param is_over   called before each turn; returns whether the time has run out
/// @return nothing if the time ran out before the least number of rounds
std::optional<std::size_t> fastest(std::size_t entrants, const ContestRules& rules,
                                   const std::function<double(std::size_t)>& take,
                                   const std::function<bool()>& is_over);

/// The configuration for which algorithms are chosen.
struct MeasureOptions {
  DType dtype = DType::float32;
  std::int64_t samples = 1;   ///< number of samples of a leaf
  bool synchronized = false;  ///< whether batch norm computes mean and variance over several leaves
  OptimizationPasses passes;
  double seconds = 10;  ///< time limit for measuring; the turn under way is still finished
  ContestRules rules;
};

/// The result of choosing algorithms.
struct MeasuredChoices {
  ops::KernelChoices choices;  ///< for the graph's operators at this batch size only
  int known = 0;               ///< number of distinct operators whose choice was known before
  int measured = 0;            ///< number of operators whose candidates were measured now
  int left = 0;                ///< number of operators left to the rule because the time ran out
  double seconds = 0;          ///< time spent measuring
};

/// Measures the candidates of the operators that a graph consists of after its passes, on random values. Each pass is
/// measured by itself, in turn, and the operators with the most FLOPs come first. A candidate has the formats of the
/// back end's rule, so that the result for one operator does not depend on the result for another. `ops` makes kernels
/// by its former choices afterwards.
/// @param known  choices that are not measured again
/// @throws as Ops::make
MeasuredChoices measure_kernels(const Graph& graph, ops::Ops& ops, const MeasureOptions& options,
                                const ops::KernelChoices& known);

}  // namespace lockstep::nn
