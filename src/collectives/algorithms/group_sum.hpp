// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {

/// The participants that exchange in one round: those whose numbers differ only in the digit of weight `distance`.
struct Group {
  int self;      ///< a participant
  int distance;  ///< between neighbours in the group
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
