// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/observe/events.hpp"

namespace lockstep::trainer {

/// Where the training time of a rank went, in seconds. Waiting for others is no time of its own: in step, all ranks are
/// equally fast, and only the own time tells which of them the others wait for.
struct RankTime {
  double data = 0;     ///< until batches were there
  double compute = 0;  ///< all other time of its own: from the last operation that waited to the next one that waits
  double wait = 0;     ///< in operations that wait for other ranks

  friend RankTime operator-(const RankTime& a, const RankTime& b) {
    return {a.data - b.data, a.compute - b.compute, a.wait - b.wait};
  }
};

/// Returns the slowest rank, by its own time, and then all others that spend at least a twentieth of the step more than
/// usual on data or on computing, the worst first. The usual time is the median over ranks, the lower one of two.
/// @param times  of each rank, over `steps` steps
/// @return nothing for a single rank or no steps
std::vector<observe::SlowRank> slow_ranks(std::span<const RankTime> times, std::span<const std::string> hosts,
                                          std::int64_t steps);

/// Gathers the times of all ranks and compares them. Collective.
/// @param mine   this rank's time over `steps` steps, the same number on all ranks
/// @return the same on all ranks, as `slow_ranks`
/// @cost one all-gather of 88 bytes from each rank
std::vector<observe::SlowRank> find_slow_ranks(ProcessGroup& group, const RankTime& mine, std::int64_t steps);

}  // namespace lockstep::trainer
