// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/comm-check/scenario.hpp"

namespace lockstep::schedules {

/// The fault of a rank.
enum class FaultKind {
  stops,                 ///< never continues, although its process is alive
  throws,                ///< its program ends with an exception
  dies,                  ///< its process ends
  aborts,                ///< calls Communicator::abort on all its communicators
  calls_something_else,  ///< submits one operation differently from the others
  names_another_root     ///< gives one operation a different root from the others
};

struct Fault {
  FaultKind kind;
  int rank;
  unsigned when;  ///< at which of its pauses, or in which of its requests
};

Fault draw_fault(const comm_check::Scenario& scenario, std::uint64_t seed);
std::string describe(const Fault& fault);

struct FaultTally {
  std::uint64_t failed = 0;  ///< number of scenarios in which some rank ended by an Error
  std::uint64_t traced = 0;  ///< number of those in which every Error had to lead to the rank at fault
  std::uint64_t late = 0;    ///< number of scenarios in which a wrong call was detected only at the deadline
};

/// Runs `count` scenarios, with one fault and one schedule each, and checks the following. No rank has a wrong result.
/// Every rank ends, normally or by an Error. The chain of blame, from the ranks that an Error names to those that their
/// own Errors name, leads to the rank at fault. If a rank stops, the first Error names only that rank. If a rank calls
/// something else, some rank ends by an Error before the deadline, and the first such Error is that rank's or names it.
/// @return the description of the first scenario that violates this
std::optional<std::string> explore_faults(std::uint64_t first_seed, std::uint64_t count,
                                          const comm_check::Limits& limits, FaultTally& tally);

}  // namespace lockstep::schedules
