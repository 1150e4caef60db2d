// SPDX-License-Identifier: Apache-2.0
// Stands in for the kernels in builds with CUDA's runtime and without its compiler.
#include "kernels/cuda/launch.hpp"

namespace lockstep::kernels::cuda {

std::string why_no_kernels() { return "lockstep was built without a CUDA compiler: " LOCKSTEP_CUDA_COMPILER_MISSING; }

cudaError_t launch_canonical_fold(const Contributions& /*in*/, void* /*out*/, DType /*dtype*/, ReduceOp /*op*/,
                                  cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}

}  // namespace lockstep::kernels::cuda
