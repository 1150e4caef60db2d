// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "emulated_gpu/nccl/operation.hpp"

namespace emulated_gpu {

/// What the calling thread has between ncclGroupStart and ncclGroupEnd; outside, a call is a group of one.
ncclResult_t begin_group();
ncclResult_t end_group();
/// A call of the group, or by itself.
ncclResult_t add_to_group(ncclComm_t handle, Exchange exchange, bool is_message, cudaStream_t stream);
/// What else waits for all ranks of a communicator, which the same thread may have in the same group.
ncclResult_t add_to_group(std::shared_ptr<Communicator> communicator, std::function<ncclResult_t()> job);
/// Has the whole group fail.
ncclResult_t refuse_in_group(ncclResult_t code);

}  // namespace emulated_gpu
