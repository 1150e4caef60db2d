// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <optional>

#include "emulated_gpu/nccl/fold.hpp"

namespace emulated_gpu {

/// NCCL's own operators, and those that ncclRedOpCreatePreMulSum has made and nobody has destroyed.
std::optional<Reduction> find_reduction(ncclRedOp_t op);

}  // namespace emulated_gpu
