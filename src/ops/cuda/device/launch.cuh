// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/element.hpp"
#include "lockstep/base/buffer.hpp"
#include "platform/gpu/cuda.hpp"

/// Building blocks of kernels. Each computes a fixed function of its index, or sums in an order that depends
/// on the numbers of elements only, so that results have the same bits on every GPU.
namespace lockstep::ops::cuda {

inline constexpr int threads_per_block = 256;

/// Elements of an activation in memory; arithmetic is in float32.
using Float32 = kernels::cuda::Plain<float>;
/// A GPU rounds in one instruction, to the bits of kernels/cuda/element.hpp except for the NaN, which is always the
/// same.
struct BFloat16 : kernels::cuda::BFloat16 {
  static __device__ std::uint16_t narrow(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }
  static __device__ ushort2 narrow_pair(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return {__bfloat16_as_ushort(pair.x), __bfloat16_as_ushort(pair.y)};
  }
};
struct Float16 : kernels::cuda::Float16 {
  static __device__ float widen(std::uint16_t stored) { return __half2float(__ushort_as_half(stored)); }
  static __device__ std::uint16_t narrow(float value) { return __half_as_ushort(__float2half_rn(value)); }
  static __device__ ushort2 narrow_pair(float first, float second) {
    const __half2 pair = __floats2half2_rn(first, second);
    return {__half_as_ushort(pair.x), __half_as_ushort(pair.y)};
  }
};

/// Calls `f` with the type of the elements. @pre the dtype is float32, bfloat16 or float16
template <typename F>
auto with_elements(DType dtype, const F& f) {
  if (dtype == DType::bfloat16) return f(BFloat16{});
  if (dtype == DType::float16) return f(Float16{});
  return f(Float32{});
}

template <typename E>
__device__ float load(const void* data, std::int64_t i) {
  return E::widen(static_cast<const typename E::Stored*>(data)[i]);
}
template <typename E>
__device__ void store(void* data, std::int64_t i, float value) {
  static_cast<typename E::Stored*>(data)[i] = E::narrow(value);
}

/// Checks the launch that came before. Its only result is the thread's last error.
inline void check_launch() { LOCKSTEP_CUDA_CHECK(cudaGetLastError()); }

template <typename Body>
__global__ void __launch_bounds__(threads_per_block) each(Body body, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

/// Submits body(0) … body(count − 1), each once, in any order.
template <typename Body>
void for_each(std::int64_t count, const Body& body, Queue queue) {
  if (count <= 0) return;
  constexpr std::int64_t most_blocks = 2048;  // they fill any GPU
  const auto blocks = static_cast<unsigned>(std::min((count + threads_per_block - 1) / threads_per_block, most_blocks));
  static_cast<void>(cudaGetLastError());
  each<Body><<<blocks, threads_per_block, 0, cuda_stream(queue)>>>(body, count);
  check_launch();
}

/// The division of a sum over rows into parts, which depends on the extents only.
struct RowParts {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t parts = 1;
  int width = 1;  ///< columns of a block

  RowParts(std::int64_t all_rows, std::int64_t all_columns)
      : rows(all_rows),
        columns(all_columns),
        parts(std::clamp<std::int64_t>(all_rows / 256, 1, 512)),
        width(all_columns >= 32 ? 32 : (all_columns >= 8 ? 8 : 1)) {}
  [[nodiscard]] std::int64_t partials() const { return parts * columns; }
};

/// Sums a part of the rows of `width` columns. Neighboring threads have neighboring columns.
template <int width, typename T, typename Of>
__global__ void __launch_bounds__(threads_per_block)
    sum_part(Of of, T* partials, std::int64_t rows, std::int64_t columns, std::int64_t parts) {
  constexpr int depth = threads_per_block / width;
  __shared__ T sums[depth][width];
  const int x = static_cast<int>(threadIdx.x) % width;
  const int y = static_cast<int>(threadIdx.x) / width;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * width + x;
  const std::int64_t part = blockIdx.y;
  const std::int64_t begin = rows * part / parts;
  const std::int64_t end = rows * (part + 1) / parts;
  T sum{};
  if (column < columns)
    for (std::int64_t row = begin + y; row < end; row += depth) sum = sum + of(row, column);
  sums[y][x] = sum;
  __syncthreads();
  for (int half = depth / 2; half > 0; half /= 2) {
    if (y < half) sums[y][x] = sums[y][x] + sums[y + half][x];
    __syncthreads();
  }
  if (y == 0 && column < columns) partials[part * columns + column] = sums[0][x];
}

/// Adds up the parts of each column, of which a thread has one, and passes the sum on.
template <typename T, typename Finish>
__global__ void __launch_bounds__(threads_per_block)
    sum_few_parts(const T* partials, std::int64_t columns, std::int64_t parts, Finish finish) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  T sum = partials[column];
  for (std::int64_t part = 1; part < parts; ++part) sum = sum + partials[part * columns + column];
  finish(column, sum);
}

/// Returns the sum of the values of a block's threads to thread 0. All threads call it together, and once.
template <typename T>
__device__ T sum_of_block(const T& value) {
  __shared__ T sums[threads_per_block];
  const auto thread = static_cast<int>(threadIdx.x);
  sums[thread] = value;
  __syncthreads();
  for (int half = threads_per_block / 2; half > 0; half /= 2) {
    if (thread < half) sums[thread] = sums[thread] + sums[thread + half];
    __syncthreads();
  }
  return sums[0];
}

/// Does the same, with a block for each column.
template <typename T, typename Finish>
__global__ void __launch_bounds__(threads_per_block)
    sum_many_parts(const T* partials, std::int64_t columns, std::int64_t parts, Finish finish) {
  const std::int64_t column = blockIdx.x;
  T sum{};
  for (std::int64_t part = threadIdx.x; part < parts; part += threads_per_block)
    sum = sum + partials[part * columns + column];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) finish(column, sum);
}

/// A single thread adds up at most this many parts. It would take long to read more of them, one after the other.
inline constexpr std::int64_t few_parts = 32;

/// Submits finish(column, Σ of its parts).
template <typename T, typename Finish>
void sum_parts(const T* partials, std::int64_t columns, std::int64_t parts, const Finish& finish, Queue queue) {
  static_cast<void>(cudaGetLastError());
  if (parts <= few_parts) {
    const auto blocks = static_cast<unsigned>((columns + threads_per_block - 1) / threads_per_block);
    sum_few_parts<T, Finish><<<blocks, threads_per_block, 0, cuda_stream(queue)>>>(partials, columns, parts, finish);
  } else {
    sum_many_parts<T, Finish><<<static_cast<unsigned>(columns), threads_per_block, 0, cuda_stream(queue)>>>(
        partials, columns, parts, finish);
  }
  check_launch();
}

/// Submits finish(column, Σ of(row, column)) for each column.
/// @tparam T         an aggregate with `+`, of which T{} is the neutral element
/// @param  partials  memory for `RowParts::partials`
template <typename T, typename Of, typename Finish>
void sum_rows(std::int64_t rows, std::int64_t columns, const Of& of, const Finish& finish, void* partials,
              Queue queue) {
  if (columns <= 0) return;
  const RowParts cut(rows, columns);
  const dim3 grid(static_cast<unsigned>((columns + cut.width - 1) / cut.width), static_cast<unsigned>(cut.parts));
  T* const to = static_cast<T*>(partials);
  cudaStream_t const stream = cuda_stream(queue);
  static_cast<void>(cudaGetLastError());
  if (cut.width == 32) {
    sum_part<32, T, Of><<<grid, threads_per_block, 0, stream>>>(of, to, rows, columns, cut.parts);
  } else if (cut.width == 8) {
    sum_part<8, T, Of><<<grid, threads_per_block, 0, stream>>>(of, to, rows, columns, cut.parts);
  } else {
    sum_part<1, T, Of><<<grid, threads_per_block, 0, stream>>>(of, to, rows, columns, cut.parts);
  }
  check_launch();
  sum_parts(to, columns, cut.parts, finish, queue);
}

}  // namespace lockstep::ops::cuda
