// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grid.hpp"
#include "kernels/cuda/launch.hpp"

namespace lockstep::kernels::cuda {
namespace {

/// Sets the mark if an element is not finite: infinities and NaN have all bits of the exponent.
template <typename Bits>
__global__ void __launch_bounds__(threads_of_block)
    find_not_finite(const Bits* values, std::int64_t count, Bits exponent, std::uint32_t* mark) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool is_flawed = false;
  for (std::int64_t i = first; i < count; i += step) is_flawed |= (values[i] & exponent) == exponent;
  if (is_flawed) atomicExch(mark, 1U);
}

template <typename Bits>
cudaError_t launch_search(const ConstBuffer& values, Bits exponent, std::uint32_t* mark, cudaStream_t stream) {
  static_cast<void>(cudaGetLastError());  // what an earlier call left there
  find_not_finite<Bits><<<blocks_for(values.count.value), threads_of_block, 0, stream>>>(
      static_cast<const Bits*>(values.data), values.count.value, exponent, mark);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_finite_check(const ConstBuffer& values, std::uint32_t* mark, cudaStream_t stream) {
  if (values.count.value == 0) return cudaSuccess;
  switch (values.dtype) {
    case DType::float16: return launch_search<std::uint16_t>(values, 0x7c00U, mark, stream);
    case DType::bfloat16: return launch_search<std::uint16_t>(values, 0x7f80U, mark, stream);
    case DType::float32: return launch_search<std::uint32_t>(values, 0x7f800000U, mark, stream);
    case DType::float64: return launch_search<std::uint64_t>(values, 0x7ff0000000000000U, mark, stream);
    default: return cudaSuccess;
  }
}

}  // namespace lockstep::kernels::cuda
