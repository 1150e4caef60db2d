// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/collective.hpp"

namespace lockstep::comm_bench {

/// Bus bandwidth ÷ algorithm bandwidth: what the links carry for each byte of the buffer in the best of algorithms, so
/// that the bus bandwidth can be held against the hardware's, whatever the operation and the number of ranks.
/// @source NVIDIA nccl-tests, doc/PERFORMANCE.md
double bus_factor(CollectiveKind kind, int ranks);

}  // namespace lockstep::comm_bench
