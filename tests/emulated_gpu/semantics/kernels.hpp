// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

/// Kernels that kernel_test.cpp launches. Each function launches one and returns cudaGetLastError().
namespace emulated_gpu::semantics {

constexpr int warp = 32;
constexpr int block_of_sums = 128;
constexpr int bins = 16;

cudaError_t launch_add(const int* a, const int* b, int* sum, int count, cudaStream_t stream);
cudaError_t launch_fill(int* to, int value, int count, cudaStream_t stream);
/// Each of `threads` blocks' threads adds 1 to *count. @param shared_bytes  that the launch asks for, and nobody uses
cudaError_t launch_count(int* count, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream);
/// to[i] = i for the thread that is the i-th of the grid, x fastest, of which each coordinate is within its extent.
cudaError_t launch_places(int* to, dim3 grid, dim3 block, cudaStream_t stream);

/// sums[b] is the sum of the b-th block_of_sums of `from`; by a tree in shared memory.
cudaError_t launch_block_sums(const int* from, int* sums, int blocks, cudaStream_t stream);
/// The same by shuffles.
cudaError_t launch_block_sums_of_warps(const int* from, int* sums, int blocks, cudaStream_t stream);
/// *sum is that of all; the block that is last adds what the others have left. @pre *finished_blocks is 0
cudaError_t launch_sum_by_last_block(const int* from, int* sums, unsigned* finished_blocks, int* sum, int blocks,
                                     cudaStream_t stream);
/// In one block, by dynamic shared memory. @pre count <= 1024
cudaError_t launch_reverse(int* values, int count, cudaStream_t stream);

/// What each lane of one warp gets; warp ints each.
struct Shuffled {
  int* of_lane_3;
  int* from_below;       ///< by 1
  int* from_above;       ///< by 2
  int* across;           ///< by 5
  int* of_half;          ///< lane 1 of its half, by a mask for each half
  int* from_below_of_8;  ///< by 1, in segments of 8
};
/// Lanes bring 100 + lane.
cudaError_t launch_shuffles(Shuffled to, cudaStream_t stream);

/// What each lane of one warp gets, or each thread of a block of 96; predicates are of the lane, or thread.
struct Votes {
  unsigned* ballot;       ///< lane % 3 == 0
  unsigned* ballot_half;  ///< lane % 3 == 0, by a mask for each half
  int* any;               ///< lane == 7
  int* all;               ///< lane < 32
  int* all_but_one;       ///< lane != 7
  unsigned* match;        ///< lane / 4
  unsigned* sum;          ///< of lanes
  int* count_of_block;    ///< thread % 5 == 0
  int* or_of_block;       ///< thread == 95
  int* and_of_block;      ///< thread != 95
};
constexpr int block_of_votes = 96;
cudaError_t launch_votes(Votes to, cudaStream_t stream);

/// Results of threads that each do one of it.
struct Atomics {
  int* add;         ///< 1 each
  int* before_add;  ///< what was there before, by thread
  int* sub;         ///< 2 each
  int* min;         ///< the thread's number
  int* max;
  unsigned* inc;                 ///< wraps behind 9
  unsigned* or_bits;             ///< 1 << (thread % 32)
  unsigned* xor_bits;            ///< the thread's number
  int* cas;                      ///< 1 each, by compare and swap
  float* add_float;              ///< 0.5 each
  unsigned long long* add_long;  ///< 1 << 40 each
};
cudaError_t launch_atomics(Atomics to, int blocks, int threads, cudaStream_t stream);
/// bins counts of value % bins, by atomics in shared memory.
cudaError_t launch_histogram(const int* values, int* counts, int count, cudaStream_t stream);

cudaError_t launch_to_half(const float* from, std::uint16_t* bits, int count, cudaStream_t stream);
cudaError_t launch_from_half(const std::uint16_t* bits, float* to, int count, cudaStream_t stream);
cudaError_t launch_to_bfloat16(const float* from, std::uint16_t* bits, int count, cudaStream_t stream);
cudaError_t launch_from_bfloat16(const std::uint16_t* bits, float* to, int count, cudaStream_t stream);
/// a + b, each in its type.
cudaError_t launch_add_half(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* sum, int count,
                            cudaStream_t stream);

/// to[i] = 2 from[i], 16 bytes at once.
cudaError_t launch_double_vectors(const float4* from, float4* to, int count, cudaStream_t stream);

}  // namespace emulated_gpu::semantics
