// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/fold.hpp"

namespace lockstep::collectives {

Expression balanced_order(Expressions& expressions, std::span<const Expression> contributions) {
  const Fold fold(static_cast<int>(contributions.size()));
  std::vector<Expression> level;
  for (int i = 0; i < fold.participants(); ++i) {
    const int rank = fold.rank(i);
    const Expression own = contributions[static_cast<std::size_t>(rank)];
    level.push_back(fold.takes_over(rank) ? expressions.combine(contributions[static_cast<std::size_t>(rank) - 1], own)
                                          : own);
  }
  for (; level.size() > 1; level.resize(level.size() / 2))
    for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = expressions.combine(level[2 * i], level[2 * i + 1]);
  return level.front();
}

}  // namespace lockstep::collectives
