// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/comm-check/scenario.hpp"

namespace lockstep::schedules {

/// What a rank does wrong.
enum class FaultKind {
  stops,                 ///< is never heard of again, though it lives
  throws,                ///< an exception goes through its program, which then ends
  dies,                  ///< its process ends
  aborts,                ///< calls Communicator::abort on all its communicators
  calls_something_else,  ///< submits one operation otherwise than the others
  names_another_root     ///< gives one operation another root than the others
};

struct Fault {
  FaultKind kind;
  int rank;
  unsigned when;  ///< at which of its pauses, or which of its requests
};

Fault draw_fault(const check::Scenario& scenario, std::uint64_t seed);
std::string describe(const Fault& fault);

struct FaultTally {
  std::uint64_t failed = 0;  ///< of how many scenarios some rank ended by an Error
  std::uint64_t traced = 0;  ///< and of how many every Error had to lead to the rank at fault
  std::uint64_t late = 0;    ///< in how many a rank called something else, which was noticed at the deadline only
};

/// Tries `count` scenarios, a fault and a schedule each. What is asked of them: no rank has a wrong result; every rank
/// ends, well or by an Error; who follows the blame, from the ranks that an Error names to those that their own Errors
/// name, arrives at the rank at fault; where a rank stops, the first Error names that rank and no other; and where a
/// rank calls something else, some rank ends by an Error before the deadline, and the first is of that rank or names
/// it.
/// @return the first that did not end as it should, in words
std::optional<std::string> explore_faults(std::uint64_t first_seed, std::uint64_t count, const check::Limits& limits,
                                          FaultTally& tally);

}  // namespace lockstep::schedules
