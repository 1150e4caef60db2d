// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

/// Kernels that use the features of CUDA, with their results. They are valid CUDA, which nvcc also compiles.
namespace emulated_gpu::features {

/// Computes out[i] = number of thread i in the grid, from its and its block's coordinates.
void number_threads(unsigned* out, dim3 grid, dim3 block, cudaStream_t stream);
/// Computes out = the transpose of the n × n matrix in. @pre n is a multiple of 32
void transpose(const float* in, float* out, int n, cudaStream_t stream);
/// Computes out[i] = in[n − 1 − i], with dynamic shared memory. @pre n ≤ 1024
void reverse(const int* in, int* out, int n, cudaStream_t stream);
/// Computes out[block] = the sum of the block's 256 elements of in, with a tree in shared memory.
void sum_blocks(const double* in, double* out, int blocks, cudaStream_t stream);
/// Computes out[0…2] = how many of in[0…n) are not 0, whether any, whether all, with n threads. @pre n ≤ 1024
void count_in_block(const int* in, int* out, int n, cudaStream_t stream);
/// Computes out[8 lane + k]: ballot, any, all, match_any, match_all, reduce_add, reduce_max, the ballot of the lane's
/// half.
void vote_in_warp(const int* in, unsigned* out, cudaStream_t stream);
/// Computes out[6 lane + k]: the value of lane 3 of its eight, two lanes below, two above, across 5, the sum of all,
/// the prefix sum.
void shuffle_in_warp(const int* in, int* out, cudaStream_t stream);
/// Computes out[i] = the sum of its half-warp's in, with shared memory and __syncwarp with masks, for 64 threads.
void sum_half_warps(const int* in, int* out, cudaStream_t stream);
/// Computes out[i] = the sum of the i-th four of 256 bytes. Threads write bytes of one word, and others read words.
void sum_bytes(const unsigned char* in, unsigned* out, cudaStream_t stream);
/// Computes counts[v] = how often v is in in[0…n), v < 16, with atomics in shared memory and then in GPU memory.
void histogram(const int* in, unsigned* counts, int n, cudaStream_t stream);
/// Uses atomics of every kind, in 1000 threads; out has 12 elements, all 0.
void change_atomically(unsigned* out, cudaStream_t stream);
/// Computes *sum += in[0…n), with compare and swap. @pre *sum is a number
void add_by_swapping(const float* in, float* sum, int n, cudaStream_t stream);
/// Computes out[i] = how many threads of 4 blocks of 64 came before thread i; *counter is 0 before.
void draw_numbers(unsigned* counter, unsigned* out, cudaStream_t stream);
/// Counts the launches in a __device__ variable; *out = its value afterwards.
void count_launches(unsigned* out, cudaStream_t stream);
/// Computes out[i] = a × in[i] + constants[i % 4], with vectors, functors and memcpy. @pre n is a multiple of 4
void scale(const float4* in, float4* out, int n, float a, cudaStream_t stream);
/// Computes 2 halves[i] + 1 in place, in half and in bfloat16, for all 65,536 values.
void double_halves(unsigned short* halves, unsigned short* bfloats, cudaStream_t stream);

}  // namespace emulated_gpu::features
