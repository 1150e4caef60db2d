// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace lockstep::nn {

/// How it is found out which of several ways is the fastest.
struct ContestRules {
  int rounds = 15;       ///< in each of which every entrant has one turn
  int least_rounds = 3;  ///< with fewer nothing has been found out
  double margin = 0.03;  ///< by how much of the first entrant's time another must be faster than that
};

/// Who is fastest by the lower quartile of his turns: the first one, unless another is faster by the margin.
/// @param entrants  ≥ 1
/// @param take      an entrant's turn; returns its seconds
/// @param is_over   asked before each turn: whether there is no time for more
/// @return nothing if time was over before the least number of rounds
std::optional<std::size_t> fastest(std::size_t entrants, const ContestRules& rules,
                                   const std::function<double(std::size_t)>& take,
                                   const std::function<bool()>& is_over);

}  // namespace lockstep::nn
