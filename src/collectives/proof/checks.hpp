// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/proof/simulator.hpp"
#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/proof/timeline.hpp"

/// Checks of plans that need no simulation.
namespace lockstep::collectives {

/// Finds malformed: steps that no plan of a rank in this trial may contain.
std::optional<Fault> find_malformed(std::span<const Plan> plans, int rank, const Trial& trial);

/// unmatched, unequal_counts
std::optional<Fault> find_mismatch(std::span<const Plan> plans);

/// For an all_to_all_v. missing: a rank that gets no message from another one, not even an empty one, so that neither
/// would notice that their counts differ; redundant: a second message of a pair.
std::optional<Fault> find_untold(std::span<const Plan> plans, const Trial& trial);

/// race: two steps that touch the same elements, one of them writing, of which neither waits for the other. It compares
/// all overlapping pairs, and knows memories that are identical in place, which `dependencies` does not.
std::optional<Fault> find_race(const Plan& plan, std::span<const Dependencies> waits_for, int rank, const Trial& trial);

/// For barriers. missing: some rank ends without having heard, at first or second hand, that another has begun;
/// redundant: a signal without news.
std::optional<Fault> find_uninformed(std::span<const Plan> plans);

/// race: two ranks touch the same elements of one of them, one of the two writing, without a happens-before order.
///
/// Happens-before consists of the dependencies within a plan, of everything the sender did before a message that was
/// received, and of everything a rank did before a Publish that was awaited. Owners write their input and output before
/// their first step and after their last, so a peer may touch them neither before the one nor after the other. There is
/// nothing to check if no rank touches another's memory.
/// @param timeline  of these plans, without blocked steps
std::optional<Fault> find_race_between_ranks(std::span<const Plan> plans, const Timeline& timeline, const Trial& trial);

/// unwritten, misplaced, missing, doubled, unequal: differences between the outputs of all ranks and the specified
/// result.
std::optional<Fault> find_wrong_result(const std::vector<std::vector<Piece>>& outputs, const Trial& trial,
                                       const Expressions& expressions);

}  // namespace lockstep::collectives
