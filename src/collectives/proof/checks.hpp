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

/// Finds `malformed` faults: steps that no rank's plan may contain in this trial.
std::optional<Fault> find_malformed(std::span<const Plan> plans, int rank, const Trial& trial);

/// Finds `unmatched` and `unequal_counts` faults.
std::optional<Fault> find_mismatch(std::span<const Plan> plans);

/// Finds faults of an all_to_all_v: `missing` if a rank gets no message from another one, not even an empty one, so
/// that neither would detect that their counts differ; `redundant` if a pair has a second message.
std::optional<Fault> find_untold(std::span<const Plan> plans, const Trial& trial);

/// Finds `race` faults: two steps access the same elements, at least one of them writes, and neither waits for the
/// other. It compares all overlapping pairs, and knows memories that are identical in place, which `dependencies` does
/// not.
std::optional<Fault> find_race(const Plan& plan, std::span<const Dependencies> waits_for, int rank, const Trial& trial);

/// Finds faults of barriers: `missing` if a rank ends without having heard, directly or indirectly, that another has
/// begun; `redundant` if a signal brings no new information.
std::optional<Fault> find_uninformed(std::span<const Plan> plans);

/// Finds `race` faults between ranks: two ranks access the same elements of one of them, at least one of them writes,
/// and there is no happens-before order.
///
/// Happens-before consists of the dependencies within a plan, of everything the sender did before a message that was
/// received, and of everything a rank did before a Publish that was awaited. Owners write their input and output before
/// their first step and after their last, so a peer may access them neither before the one nor after the other. There
/// is nothing to check if no rank accesses another's memory.
/// @param timeline  of these plans, without blocked steps
std::optional<Fault> find_race_between_ranks(std::span<const Plan> plans, const Timeline& timeline, const Trial& trial);

/// Finds `unwritten`, `misplaced`, `missing`, `doubled` and `unequal` faults: differences between the outputs of all
/// ranks and the specified result.
std::optional<Fault> find_wrong_result(const std::vector<std::vector<Piece>>& outputs, const Trial& trial,
                                       const Expressions& expressions);

}  // namespace lockstep::collectives
