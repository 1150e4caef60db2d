// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::pmpi {

/// Calls of the MPI library that this process has made since the last reset, seen through MPI's profiling interface.
struct Counters {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t messages_received = 0;  ///< receives posted
  std::int64_t collectives = 0;
};

/// Starts counting from zero.
void reset();
Counters counters();

}  // namespace lockstep::pmpi
