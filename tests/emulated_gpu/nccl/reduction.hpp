// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <optional>

#include "emulated_gpu/nccl/fold.hpp"

namespace emulated_gpu {

class Communicator;

/// NCCL's own operators, and those that ncclRedOpCreatePreMulSum has made for this communicator and type and nobody has
/// destroyed.
std::optional<Reduction> find_reduction(ncclRedOp_t op, ncclDataType_t type, const Communicator& communicator);

}  // namespace emulated_gpu
