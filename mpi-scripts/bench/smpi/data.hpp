// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"

/// The data of the simulated ranks. Two forms can be linked: real data that are checked (data_present.cpp), or one
/// memory for all ranks, whose contents have no meaning (data_absent.cpp), so that 1,024 ranks with 100 MiB each fit
/// into one process. Simulated times are the same, because SMPI times messages by their sizes.
namespace lockstep::smpi {

/// Overwrites `buffer` with the input of rank `me`.
void fill(const Buffer& buffer, int me);
/// Returns how many elements differ from the sum over all ranks.
std::int64_t wrong(const Buffer& buffer, int ranks);
/// Without real data, makes SMPI skip all copies and sums for this rank from now on. Communicators must be made before.
void leave_data_out();

}  // namespace lockstep::smpi
