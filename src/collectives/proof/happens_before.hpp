// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "collectives/proof/simulator.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {

/// race: two ranks touch the same elements of one of them, one of the two writing, and nothing says who comes first.
///
/// Happens before: what a step waits for in its own plan; what the sender had done before a message, once it has been
/// received; what a rank had done before a Publish, for whoever awaited it. Owners write their input and output before
/// their first step and after their last: so a peer may touch them neither before the one nor after the other.
/// Nothing is looked for where no rank touches another's memory.
/// @param timeline  of these plans, without blocked steps
std::optional<Fault> find_race_between_ranks(std::span<const Plan> plans, const Timeline& timeline, const Trial& trial);

}  // namespace lockstep::collectives
