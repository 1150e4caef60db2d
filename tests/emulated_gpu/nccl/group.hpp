// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "emulated_gpu/nccl/operation.hpp"

namespace emulated_gpu {

/// Manages the calls of a thread between ncclGroupStart and ncclGroupEnd; outside, a call is a group of one.
ncclResult_t begin_group();
ncclResult_t end_group();
/// Adds a call to the group, or runs it alone.
ncclResult_t add_to_group(ncclComm_t handle, Exchange exchange, bool is_message, cudaStream_t stream);
/// Adds another job that waits for all ranks of a communicator; the same thread may have these in the same group.
ncclResult_t add_to_group(std::shared_ptr<Communicator> communicator, std::function<ncclResult_t()> job);
/// Makes the whole group fail.
ncclResult_t refuse_in_group(ncclResult_t code);

}  // namespace emulated_gpu
