// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

/// The kernels that kernel_test.cpp launches. Each function launches one and returns cudaGetLastError().
namespace emulated_gpu::semantics {

constexpr int warp = 32;
constexpr int block_of_sums = 128;
constexpr int bins = 16;

cudaError_t launch_add(const int* a, const int* b, int* sum, int count, cudaStream_t stream);
cudaError_t launch_fill(int* to, int value, int count, cudaStream_t stream);
/// Calls cudaOccupancyMaxActiveBlocksPerMultiprocessor for the same kernel.
cudaError_t find_resident_blocks(int* blocks, int threads);
/// Each thread of the grid adds 1 to *count. @param shared_bytes  size that the launch requests; it is not used
cudaError_t launch_count(int* count, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream);
/// Stores i in to[i] for the i-th thread of the grid, x fastest, if each coordinate is within its extent.
cudaError_t launch_places(int* to, dim3 grid, dim3 block, cudaStream_t stream);

/// Computes sums[b] = the sum of the b-th block_of_sums of `from`, with a tree in shared memory.
cudaError_t launch_block_sums(const int* from, int* sums, int blocks, cudaStream_t stream);
/// Computes the same with shuffles.
cudaError_t launch_block_sums_of_warps(const int* from, int* sums, int blocks, cudaStream_t stream);
/// Also computes *sum, the sum of all; the last block adds the sums of the others. @pre *finished_blocks is 0
cudaError_t launch_sum_by_last_block(const int* from, int* sums, unsigned* finished_blocks, int* sum, int blocks,
                                     cudaStream_t stream);
/// Reverses the values in one block, with dynamic shared memory. @pre count <= 1024
cudaError_t launch_reverse(int* values, int count, cudaStream_t stream);

/// The value that each lane of one warp gets; `warp` ints each.
struct Shuffled {
  int* of_lane_3;
  int* from_below;       ///< distance 1
  int* from_above;       ///< distance 2
  int* across;           ///< mask 5
  int* of_half;          ///< lane 1 of its half, with a mask for each half
  int* from_below_of_8;  ///< distance 1, in segments of 8
};
/// The value of a lane is 100 + lane.
cudaError_t launch_shuffles(Shuffled to, cudaStream_t stream);

/// The result for each lane of one warp, or each thread of a block of 96. The comments give the predicate or value.
struct Votes {
  unsigned* ballot;       ///< lane % 3 == 0
  unsigned* ballot_half;  ///< lane % 3 == 0, with a mask for each half
  int* any;               ///< lane == 7
  int* all;               ///< lane < 32
  int* all_but_one;       ///< lane != 7
  unsigned* match;        ///< lane / 4
  unsigned* sum;          ///< lane
  int* count_of_block;    ///< thread % 5 == 0
  int* or_of_block;       ///< thread == 95
  int* and_of_block;      ///< thread != 95
};
constexpr int block_of_votes = 96;
cudaError_t launch_votes(Votes to, cudaStream_t stream);

/// Results of threads, each of which makes one operation of every kind.
struct Atomics {
  int* add;         ///< operand 1
  int* before_add;  ///< the value before, by thread
  int* sub;         ///< operand 2
  int* min;         ///< operand: the thread's number
  int* max;
  unsigned* inc;                 ///< wraps after 9
  unsigned* or_bits;             ///< operand 1 << (thread % 32)
  unsigned* xor_bits;            ///< operand: the thread's number
  int* cas;                      ///< operand 1, with compare and swap
  float* add_float;              ///< operand 0.5
  unsigned long long* add_long;  ///< operand 1 << 40
};
cudaError_t launch_atomics(Atomics to, int blocks, int threads, cudaStream_t stream);
/// Counts value % bins in `bins` counters, with atomics in shared memory.
cudaError_t launch_histogram(const int* values, int* counts, int count, cudaStream_t stream);

cudaError_t launch_to_half(const float* from, std::uint16_t* bits, int count, cudaStream_t stream);
cudaError_t launch_from_half(const std::uint16_t* bits, float* to, int count, cudaStream_t stream);
cudaError_t launch_to_bfloat16(const float* from, std::uint16_t* bits, int count, cudaStream_t stream);
cudaError_t launch_from_bfloat16(const std::uint16_t* bits, float* to, int count, cudaStream_t stream);
/// Computes a + b in the type.
cudaError_t launch_add_half(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* sum, int count,
                            cudaStream_t stream);

/// Computes to[i] = 2 from[i], 16 bytes at once.
cudaError_t launch_double_vectors(const float4* from, float4* to, int count, cudaStream_t stream);

}  // namespace emulated_gpu::semantics
