// SPDX-License-Identifier: Apache-2.0
#include "nn/contest.hpp"

#include <algorithm>
#include <vector>

namespace lockstep::nn {
namespace {

/// Other work on the processor can only make a turn longer, so the lower quartile says more than the mean.
double lower_quartile_of(std::vector<double> values) {
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

}  // namespace

std::optional<std::size_t> fastest(std::size_t entrants, const ContestRules& rules,
                                   const std::function<double(std::size_t)>& take,
                                   const std::function<bool()>& is_over) {
  std::vector<std::vector<double>> seconds(entrants);
  const auto last = static_cast<std::size_t>(rules.rounds);
  while (seconds.back().size() < last && !is_over()) {
    for (std::size_t entrant = 0; entrant < entrants && (entrant == 0 || !is_over()); ++entrant)
      seconds[entrant].push_back(take(entrant));
  }
  // A round that the time limit cut short does not count for any entrant.
  const std::size_t rounds = seconds.back().size();
  if (rounds < static_cast<std::size_t>(rules.least_rounds)) return std::nullopt;
  std::vector<double> quartiles;
  for (std::vector<double>& of_one : seconds) {
    of_one.resize(rounds);
    quartiles.push_back(lower_quartile_of(of_one));
  }
  const auto best = std::min_element(quartiles.begin(), quartiles.end());
  return *best < (1 - rules.margin) * quartiles.front() ? static_cast<std::size_t>(best - quartiles.begin()) : 0;
}

}  // namespace lockstep::nn
