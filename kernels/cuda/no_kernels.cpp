// SPDX-License-Identifier: Apache-2.0
// This file replaces the kernels in builds that have CUDA's runtime but not its compiler.
#include "kernels/cuda/launch.hpp"

namespace lockstep::kernels::cuda {

std::string why_no_kernels() { return "lockstep was built without a CUDA compiler: " LOCKSTEP_CUDA_COMPILER_MISSING; }

cudaError_t launch_canonical_fold(const Contributions& /*in*/, void* /*out*/, DType /*dtype*/, ReduceOp /*op*/,
                                  cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}

cudaError_t launch_finite_check(const ConstBuffer& /*values*/, std::uint32_t* /*mark*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}

}  // namespace lockstep::kernels::cuda
