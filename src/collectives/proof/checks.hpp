// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "collectives/proof/simulator.hpp"

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

}  // namespace lockstep::collectives
