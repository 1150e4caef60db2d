// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace lockstep::nn {

/// How the fastest of several entrants is determined.
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

}  // namespace lockstep::nn
