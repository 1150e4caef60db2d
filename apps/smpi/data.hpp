// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"

/// What the simulated ranks add up. Linked in one of two forms: data that are there and can be checked
/// (data_present.cpp), or one memory for all ranks, whose contents mean nothing (data_absent.cpp), so that 1,024
/// ranks with 100 MiB each fit into one process. Simulated times are the same: SMPI times messages by their sizes.
namespace lockstep::smpi {

/// Overwrites `buffer` with what rank `me` brings.
void fill(const Buffer& buffer, int me);
/// How many elements differ from the sum over all ranks.
std::int64_t wrong(const Buffer& buffer, int ranks);
/// Where there are no data: from now on SMPI copies and adds nothing for this rank. Communicators are made before.
void leave_data_out();

}  // namespace lockstep::smpi
