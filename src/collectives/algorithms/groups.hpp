// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {

/// Folding, which extends algorithms for powers of two to any number of ranks: of the first 2·extras ranks each even
/// rank sends its contribution to its odd neighbor and receives the result from it; the other ranks participate.
class Fold {
 public:
  explicit Fold(int ranks) : participants_(floor_power_of_two(ranks)), extras_(ranks - participants_) {}

  [[nodiscard]] int participants() const { return participants_; }
  /// Returns whether `rank` sends its contribution to `rank` + 1.
  [[nodiscard]] bool hands_over(int rank) const { return rank < 2 * extras_ && rank % 2 == 0; }
  /// Returns whether `rank` also represents `rank` − 1.
  [[nodiscard]] bool takes_over(int rank) const { return rank < 2 * extras_ && rank % 2 == 1; }
  /// @pre !hands_over(rank)
  [[nodiscard]] int participant(int rank) const { return takes_over(rank) ? rank / 2 : rank - extras_; }
  [[nodiscard]] int rank(int participant) const {
    return participant < extras_ ? 2 * participant + 1 : participant + extras_;
  }

 private:
  int participants_;
  int extras_;
};

/// Returns the balanced order: neighbors that fold, then participants in pairs, pairs of pairs, and so on.
Expression balanced_order(Expressions& expressions, std::span<const Expression> contributions);

/// The participants that exchange in one round: those whose numbers differ only in the digit of weight `distance`.
struct Group {
  int self;      ///< a participant
  int distance;  ///< between neighbors in the group
  int size;      ///< a power of two

  [[nodiscard]] int index() const { return self / distance % size; }
  [[nodiscard]] int member(int index_of_member) const { return self + (index_of_member - index()) * distance; }
};

/// Reduces the contributions of the members of a group in a balanced tree: pairs, then pairs of pairs. Rounds with one
/// partner each add in the same order, so that the bits do not depend on the size of groups.
/// @param pieces  one for each member; pieces[own] is the output's, the others are scratch
/// @param own     index of the piece that receives the sum
void sum_balanced(PlanBuilder& plan, std::span<const Range> pieces, int own);

}  // namespace lockstep::collectives
