// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "emulated_gpu/semantics/kernels.hpp"

namespace emulated_gpu::semantics {
namespace {

constexpr unsigned all_lanes = 0xffffffffU;
constexpr unsigned low_lanes = 0x0000ffffU;

unsigned blocks_for(int count, int threads) { return static_cast<unsigned>((count + threads - 1) / threads); }

__device__ int thread_of_grid() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ int step_of_grid() { return static_cast<int>(gridDim.x * blockDim.x); }

__global__ void add(const int* a, const int* b, int* sum, int count) {
  const int i = thread_of_grid();
  if (i < count) sum[i] = a[i] + b[i];
}

__global__ void fill(int* to, int value, int count) {
  const int i = thread_of_grid();
  if (i < count) to[i] = value;
}

__global__ void count_threads(int* count) { atomicAdd(count, 1); }

__global__ void write_places(int* to) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned place = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  const bool is_within = threadIdx.x < blockDim.x && threadIdx.y < blockDim.y && threadIdx.z < blockDim.z;
  to[place] = is_within ? static_cast<int>(place) : -1;
}

/// Returns the sum of all threads of the block, in the first thread.
__device__ int sum_of_block(int mine) {
  __shared__ int parts[block_of_sums];
  const int me = static_cast<int>(threadIdx.x);
  parts[me] = mine;
  __syncthreads();
  for (int half = block_of_sums / 2; half > 0; half /= 2) {
    if (me < half) parts[me] += parts[me + half];
    __syncthreads();
  }
  return parts[0];
}

__global__ void sum_blocks(const int* from, int* sums) {
  const int sum = sum_of_block(from[thread_of_grid()]);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__device__ int sum_of_warp(int mine) {
  for (int distance = warp / 2; distance > 0; distance /= 2) mine += __shfl_down_sync(all_lanes, mine, distance);
  return mine;
}

__global__ void sum_blocks_by_warps(const int* from, int* sums) {
  __shared__ int parts[warp];
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int mine = sum_of_warp(from[thread_of_grid()]);
  if (lane == 0) parts[threadIdx.x / warp] = mine;
  __syncthreads();
  if (threadIdx.x < warp) {
    const int sum = sum_of_warp(lane < block_of_sums / warp ? parts[lane] : 0);
    if (lane == 0) sums[blockIdx.x] = sum;
  }
}

__global__ void sum_by_last_block(const int* from, volatile int* sums, unsigned* finished_blocks, int* sum) {
  __shared__ bool is_last;
  const int mine = sum_of_block(from[thread_of_grid()]);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = mine;
    __threadfence();
    is_last = atomicAdd(finished_blocks, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int total = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) total += sums[block];
  *sum = total;
}

__global__ void reverse(int* values, int count) {
  extern __shared__ int kept[];
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) kept[i] = values[i];
  __syncthreads();
  if (i < count) values[i] = kept[count - 1 - i];
}

__global__ void shuffle(Shuffled to) {
  const int lane = static_cast<int>(threadIdx.x);
  const int mine = 100 + lane;
  to.of_lane_3[lane] = __shfl_sync(all_lanes, mine, 3);
  to.from_below[lane] = __shfl_up_sync(all_lanes, mine, 1);
  to.from_above[lane] = __shfl_down_sync(all_lanes, mine, 2);
  to.across[lane] = __shfl_xor_sync(all_lanes, mine, 5);
  to.from_below_of_8[lane] = __shfl_up_sync(all_lanes, mine, 1, 8);
  if (lane < warp / 2) {
    to.of_half[lane] = __shfl_sync(low_lanes, mine, 1);
  } else {
    to.of_half[lane] = __shfl_sync(~low_lanes, mine, 17);
  }
}

__global__ void vote(Votes to) {
  const int thread = static_cast<int>(threadIdx.x);
  to.count_of_block[thread] = __syncthreads_count(thread % 5 == 0);
  to.or_of_block[thread] = __syncthreads_or(thread == 95);
  to.and_of_block[thread] = __syncthreads_and(thread != 95);
  if (thread >= warp) return;
  const int lane = thread;
  to.ballot[lane] = __ballot_sync(all_lanes, lane % 3 == 0);
  to.any[lane] = __any_sync(all_lanes, lane == 7);
  to.all[lane] = __all_sync(all_lanes, lane < warp);
  to.all_but_one[lane] = __all_sync(all_lanes, lane != 7);
  to.match[lane] = __match_any_sync(all_lanes, lane / 4);
  to.sum[lane] = __reduce_add_sync(all_lanes, static_cast<unsigned>(lane));
  if (lane < warp / 2) {
    to.ballot_half[lane] = __ballot_sync(low_lanes, lane % 3 == 0);
  } else {
    to.ballot_half[lane] = __ballot_sync(~low_lanes, lane % 3 == 0);
  }
}

__device__ void add_by_swapping(int* to) {
  int seen = atomicAdd(to, 0);
  for (;;) {
    const int before = atomicCAS(to, seen, seen + 1);
    if (before == seen) return;
    seen = before;
  }
}

__global__ void do_atomics(Atomics to) {
  const int thread = thread_of_grid();
  to.before_add[thread] = atomicAdd(to.add, 1);
  atomicSub(to.sub, 2);
  atomicMin(to.min, thread);
  atomicMax(to.max, thread);
  atomicInc(to.inc, 9U);
  atomicOr(to.or_bits, 1U << (thread % 32));
  atomicXor(to.xor_bits, static_cast<unsigned>(thread));
  add_by_swapping(to.cas);
  atomicAdd(to.add_float, 0.5F);
  atomicAdd(to.add_long, 1ULL << 40);
}

__global__ void count_bins(const int* values, int* counts, int count) {
  __shared__ int of_block[bins];
  if (threadIdx.x < bins) of_block[threadIdx.x] = 0;
  __syncthreads();
  for (int i = thread_of_grid(); i < count; i += step_of_grid()) atomicAdd(&of_block[values[i] % bins], 1);
  __syncthreads();
  if (threadIdx.x < bins) atomicAdd(&counts[threadIdx.x], of_block[threadIdx.x]);
}

__global__ void to_half(const float* from, std::uint16_t* bits, int count) {
  for (int i = thread_of_grid(); i < count; i += step_of_grid()) bits[i] = __half_as_ushort(__float2half_rn(from[i]));
}
__global__ void from_half(const std::uint16_t* bits, float* to, int count) {
  for (int i = thread_of_grid(); i < count; i += step_of_grid()) to[i] = __half2float(__ushort_as_half(bits[i]));
}
__global__ void to_bfloat16(const float* from, std::uint16_t* bits, int count) {
  for (int i = thread_of_grid(); i < count; i += step_of_grid())
    bits[i] = __bfloat16_as_ushort(__float2bfloat16_rn(from[i]));
}
__global__ void from_bfloat16(const std::uint16_t* bits, float* to, int count) {
  for (int i = thread_of_grid(); i < count; i += step_of_grid())
    to[i] = __bfloat162float(__ushort_as_bfloat16(bits[i]));
}
__global__ void add_half(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* sum, int count) {
  for (int i = thread_of_grid(); i < count; i += step_of_grid())
    sum[i] = __half_as_ushort(__hadd(__ushort_as_half(a[i]), __ushort_as_half(b[i])));
}

__global__ void double_vectors(const float4* from, float4* to, int count) {
  const int i = thread_of_grid();
  if (i >= count) return;
  const float4 v = from[i];
  to[i] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
}

constexpr unsigned few_blocks = 4;
constexpr unsigned few_threads = 64;

}  // namespace

cudaError_t launch_add(const int* a, const int* b, int* sum, int count, cudaStream_t stream) {
  add<<<blocks_for(count, 128), 128, 0, stream>>>(a, b, sum, count);
  return cudaGetLastError();
}
cudaError_t launch_fill(int* to, int value, int count, cudaStream_t stream) {
  fill<<<blocks_for(count, 128), 128, 0, stream>>>(to, value, count);
  return cudaGetLastError();
}
cudaError_t find_resident_blocks(int* blocks, int threads) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(&fill), threads, 0);
}
cudaError_t launch_count(int* count, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  count_threads<<<grid, block, shared_bytes, stream>>>(count);
  return cudaGetLastError();
}
cudaError_t launch_places(int* to, dim3 grid, dim3 block, cudaStream_t stream) {
  write_places<<<grid, block, 0, stream>>>(to);
  return cudaGetLastError();
}
cudaError_t launch_block_sums(const int* from, int* sums, int blocks, cudaStream_t stream) {
  sum_blocks<<<static_cast<unsigned>(blocks), block_of_sums, 0, stream>>>(from, sums);
  return cudaGetLastError();
}
cudaError_t launch_block_sums_of_warps(const int* from, int* sums, int blocks, cudaStream_t stream) {
  sum_blocks_by_warps<<<static_cast<unsigned>(blocks), block_of_sums, 0, stream>>>(from, sums);
  return cudaGetLastError();
}
cudaError_t launch_sum_by_last_block(const int* from, int* sums, unsigned* finished_blocks, int* sum, int blocks,
                                     cudaStream_t stream) {
  sum_by_last_block<<<static_cast<unsigned>(blocks), block_of_sums, 0, stream>>>(from, sums, finished_blocks, sum);
  return cudaGetLastError();
}
cudaError_t launch_reverse(int* values, int count, cudaStream_t stream) {
  const auto threads = static_cast<unsigned>(count);
  reverse<<<1, threads, threads * sizeof(int), stream>>>(values, count);
  return cudaGetLastError();
}
cudaError_t launch_shuffles(Shuffled to, cudaStream_t stream) {
  shuffle<<<1, warp, 0, stream>>>(to);
  return cudaGetLastError();
}
cudaError_t launch_votes(Votes to, cudaStream_t stream) {
  vote<<<1, block_of_votes, 0, stream>>>(to);
  return cudaGetLastError();
}
cudaError_t launch_atomics(Atomics to, int blocks, int threads, cudaStream_t stream) {
  do_atomics<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(to);
  return cudaGetLastError();
}
cudaError_t launch_histogram(const int* values, int* counts, int count, cudaStream_t stream) {
  count_bins<<<few_blocks, few_threads, 0, stream>>>(values, counts, count);
  return cudaGetLastError();
}
cudaError_t launch_to_half(const float* from, std::uint16_t* bits, int count, cudaStream_t stream) {
  to_half<<<few_blocks, few_threads, 0, stream>>>(from, bits, count);
  return cudaGetLastError();
}
cudaError_t launch_from_half(const std::uint16_t* bits, float* to, int count, cudaStream_t stream) {
  from_half<<<few_blocks, few_threads, 0, stream>>>(bits, to, count);
  return cudaGetLastError();
}
cudaError_t launch_to_bfloat16(const float* from, std::uint16_t* bits, int count, cudaStream_t stream) {
  to_bfloat16<<<few_blocks, few_threads, 0, stream>>>(from, bits, count);
  return cudaGetLastError();
}
cudaError_t launch_from_bfloat16(const std::uint16_t* bits, float* to, int count, cudaStream_t stream) {
  from_bfloat16<<<few_blocks, few_threads, 0, stream>>>(bits, to, count);
  return cudaGetLastError();
}
cudaError_t launch_add_half(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* sum, int count,
                            cudaStream_t stream) {
  add_half<<<few_blocks, few_threads, 0, stream>>>(a, b, sum, count);
  return cudaGetLastError();
}
cudaError_t launch_double_vectors(const float4* from, float4* to, int count, cudaStream_t stream) {
  double_vectors<<<blocks_for(count, 32), 32, 0, stream>>>(from, to, count);
  return cudaGetLastError();
}

}  // namespace emulated_gpu::semantics
