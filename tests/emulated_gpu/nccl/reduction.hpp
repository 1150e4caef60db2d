// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <optional>

#include "emulated_gpu/nccl/fold.hpp"

namespace emulated_gpu {

class Communicator;

/// Finds one of NCCL's own operators, or one that ncclRedOpCreatePreMulSum has made for this communicator and type and
/// that was not destroyed.
std::optional<Reduction> find_reduction(ncclRedOp_t op, ncclDataType_t type, const Communicator& communicator);

}  // namespace emulated_gpu
