// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/proof/simulator.hpp"
#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/proof/timeline.hpp"

/// What can be said of plans without running them.
namespace lockstep::collectives {

/// malformed: what no plan of a rank in this trial may contain.
std::optional<Fault> find_malformed(std::span<const Plan> plans, int rank, const Trial& trial);

/// unmatched, unequal_counts
std::optional<Fault> find_mismatch(std::span<const Plan> plans);

/// For an all_to_all_v. missing: a rank that is told nothing by another one, not even that there is nothing, so that
/// neither would learn that their counts differ; redundant: a second message of a pair.
std::optional<Fault> find_untold(std::span<const Plan> plans, const Trial& trial);

/// race: two steps that touch the same elements, one of them writing, neither of which waits for the other. Compares
/// all pairs that overlap; it knows of memories that are the same in place, which `dependencies` does not.
std::optional<Fault> find_race(const Plan& plan, std::span<const Dependencies> waits_for, int rank, const Trial& trial);

/// For barriers. missing: some rank ends without having heard, at first or second hand, that another has begun;
/// redundant: a signal without news.
std::optional<Fault> find_uninformed(std::span<const Plan> plans);

/// race: two ranks touch the same elements of one of them, one of the two writing, and nothing says who comes first.
///
/// Happens before: what a step waits for in its own plan; what the sender had done before a message, once it has been
/// received; what a rank had done before a Publish, for whoever awaited it. Owners write their input and output before
/// their first step and after their last: so a peer may touch them neither before the one nor after the other.
/// Nothing is looked for where no rank touches another's memory.
/// @param timeline  of these plans, without blocked steps
std::optional<Fault> find_race_between_ranks(std::span<const Plan> plans, const Timeline& timeline, const Trial& trial);

/// unwritten, misplaced, missing, doubled, unequal: how the outputs of all ranks differ from what the operation
/// promises.
std::optional<Fault> find_wrong_result(const std::vector<std::vector<Piece>>& outputs, const Trial& trial,
                                       const Expressions& expressions);

}  // namespace lockstep::collectives
