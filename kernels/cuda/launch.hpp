// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernels for GPUs, for rooms that know CUDA. Only the kernels need a CUDA compiler; `why_no_kernels` reports a
// build without one.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/canonical_fold.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels::cuda {

/// The reason why this build has no kernels for GPUs; empty if it has them.
std::string why_no_kernels();

/// Queues on `stream`: out[i] = the sum of the contributions to element i in the canonical order, every sum rounded to
/// the type; overwrites. The bits are those of the CPU's kernels. `out` may be the rank's own contribution; no other
/// overlap.
/// @pre   elements are aligned to their size; why_no_kernels() is empty
/// @return CUDA's result of the launch; an earlier unread error of the thread is dropped
/// @cost  each contribution is read once, the sum written once
cudaError_t launch_canonical_fold(const Contributions& in, void* out, DType dtype, ReduceOp op, cudaStream_t stream);

/// Queues on `stream`: *mark = 1 if an element is infinite or NaN, else nothing is written. Integers are always finite.
/// @pre   `mark` is GPU memory; elements are aligned to their size; why_no_kernels() is empty
/// @return as launch_canonical_fold
/// @cost  each element is read once
cudaError_t launch_finite_check(const ConstBuffer& values, std::uint32_t* mark, cudaStream_t stream);

}  // namespace lockstep::kernels::cuda
