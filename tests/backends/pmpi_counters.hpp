// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::pmpi {

/// The MPI calls of this process since the last reset, counted with MPI's profiling interface.
struct Counters {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t messages_received = 0;  ///< posted receives
  std::int64_t collectives = 0;
  std::int64_t communicators = 0;                    ///< made by MPI, which takes several collectives of its own
  std::int64_t collectives_before_communicator = 0;  ///< before the first of them
};

/// Resets all counters to zero.
void reset();
Counters counters();

}  // namespace lockstep::pmpi
