// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/groups.hpp"

#include <vector>

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

void sum_balanced(PlanBuilder& plan, std::span<const Range> pieces, int own) {
  std::vector<Range> level(pieces.begin(), pieces.end());
  auto mine = static_cast<std::size_t>(own);
  for (; level.size() > 1; level.resize(level.size() / 2), mine /= 2) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) {
      // Addition is commutative, so the rank's own piece can receive the sum wherever it is in the pair.
      const std::size_t to = mine == 2 * i + 1 ? 2 * i + 1 : 2 * i;
      const std::size_t from = 4 * i + 1 - to;
      plan.reduce(level[to], level[from]);
      level[i] = level[to];
    }
  }
}

}  // namespace lockstep::collectives
