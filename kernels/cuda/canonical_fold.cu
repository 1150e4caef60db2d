// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/canonical_fold.hpp"
#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/launch.hpp"

namespace lockstep::kernels::cuda {
namespace {

/// Adds up the operands. Neighboring threads read and write neighboring elements, one operand after the
/// other.
template <typename Format, typename Op>
__global__ void __launch_bounds__(threads_of_block) fold(Contributions in, typename Format::Stored* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t i = first; i < in.count; i += step) out[i] = fold_element<Format, Op>(in, i);
}

}  // namespace

std::string why_no_kernels() { return {}; }

cudaError_t launch_canonical_fold(const Contributions& in, void* out, DType dtype, ReduceOp op, cudaStream_t stream) {
  if (in.operands < 1 || in.operands > Contributions::most) return cudaErrorInvalidValue;
  if (in.count == 0) return cudaSuccess;
  // The only result of a launch is the thread's last error, so an error that an earlier call left there is cleared
  // first. Errors of the device are returned again.
  static_cast<void>(cudaGetLastError());
  with_arithmetic(dtype, op, [&](auto format, auto combine) {
    using Format = decltype(format);
    using Op = decltype(combine);
    fold<Format, Op>
        <<<blocks_for(in.count), threads_of_block, 0, stream>>>(in, static_cast<typename Format::Stored*>(out));
  });
  return cudaGetLastError();
}

}  // namespace lockstep::kernels::cuda
