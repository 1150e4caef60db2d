// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/collective.hpp"

namespace lockstep::comm_bench {

/// Returns bus bandwidth ÷ algorithm bandwidth: the bytes that the best algorithm sends over a link for each byte of
/// the buffer. So the bus bandwidth can be compared with that of the hardware, whatever the operation and the number of
/// ranks.
/// @source NVIDIA nccl-tests, doc/PERFORMANCE.md
double bus_factor(CollectiveKind kind, int ranks);

}  // namespace lockstep::comm_bench
