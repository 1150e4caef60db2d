// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {

/// How algorithms for powers of two serve any number of ranks: of the first 2·extras ranks each even one hands its
/// contribution to its odd neighbor and gets the result from it; the others take part.
class Fold {
 public:
  explicit Fold(int ranks) : participants_(floor_power_of_two(ranks)), extras_(ranks - participants_) {}

  [[nodiscard]] int participants() const { return participants_; }
  /// Whether `rank` hands its contribution to `rank` + 1.
  [[nodiscard]] bool hands_over(int rank) const { return rank < 2 * extras_ && rank % 2 == 0; }
  /// Whether `rank` acts for `rank` − 1 as well.
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

/// The balanced order: neighbors that fold, then participants in pairs, pairs of pairs, and so on.
Expression balanced_order(Expressions& expressions, std::span<const Expression> contributions);

/// The participants that exchange in one round: those whose numbers differ only in the digit of weight `distance`.
struct Group {
  int self;      ///< a participant
  int distance;  ///< between neighbors in the group
  int size;      ///< a power of two

  [[nodiscard]] int index() const { return self / distance % size; }
  [[nodiscard]] int member(int index_of_member) const { return self + (index_of_member - index()) * distance; }
};

/// Adds up what the members of a group bring, in a balanced tree: pairs, then pairs of pairs. This is what rounds with
/// one partner each do, so that the size of groups does not show in the bits.
/// @param pieces  one for each member; pieces[own] is the output's, the others are scratch
/// @param own     where the sum ends
void sum_balanced(PlanBuilder& plan, std::span<const Range> pieces, int own);

}  // namespace lockstep::collectives
