// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

/// Kernels that use what CUDA has, each with what it does; valid CUDA, which nvcc compiles, too.
namespace emulated_gpu::features {

/// out[i] = number of the thread i in the grid, by its and its block's coordinates
void number_threads(unsigned* out, dim3 grid, dim3 block, cudaStream_t stream);
/// out is the transpose of the n × n matrix in. @pre n is a multiple of 32
void transpose(const float* in, float* out, int n, cudaStream_t stream);
/// out[i] = in[n − 1 − i], by dynamic shared memory. @pre n ≤ 1024
void reverse(const int* in, int* out, int n, cudaStream_t stream);
/// out[block] = the sum of the block's 256 elements of in, by a tree over shared memory
void sum_blocks(const double* in, double* out, int blocks, cudaStream_t stream);
/// out[0…2] = how many of in[0…n) are not 0, whether any, whether all, as n threads see it. @pre n ≤ 1024
void count_in_block(const int* in, int* out, int n, cudaStream_t stream);
/// out[8 lane + k]: ballot, any, all, match_any, match_all, reduce_add, reduce_max, those of the lane's half alone
void vote_in_warp(const int* in, unsigned* out, cudaStream_t stream);
/// out[6 lane + k]: of lane 3 of its eight, two lanes below, two above, across 5, the sum of all, the sum up to here
void shuffle_in_warp(const int* in, int* out, cudaStream_t stream);
/// out[i] = the sum of its half-warp's in, by shared memory and __syncwarp with masks. 64 threads
void sum_half_warps(const int* in, int* out, cudaStream_t stream);
/// out[i] = the sum of the i-th four of 256 bytes: threads write bytes of one word, and others read words
void sum_bytes(const unsigned char* in, unsigned* out, cudaStream_t stream);
/// counts[v] = how often v is in in[0…n), v < 16, by atomics on shared memory and then on the GPU's
void histogram(const int* in, unsigned* counts, int n, cudaStream_t stream);
/// Atomics of every kind, by 1000 threads; out has 12 elements, all 0
void change_atomically(unsigned* out, cudaStream_t stream);
/// *sum += in[0…n), by compare and swap. @pre *sum is a number
void add_by_swapping(const float* in, float* sum, int n, cudaStream_t stream);
/// out[i] = how many threads of 4 blocks of 64 came before thread i; *counter is 0 before
void draw_numbers(unsigned* counter, unsigned* out, cudaStream_t stream);
/// A __device__ variable counts the launches; *out = its value afterwards
void count_launches(unsigned* out, cudaStream_t stream);
/// out[i] = a × in[i] + constants[i % 4], by vectors, functors and memcpy. @pre n is a multiple of 4
void scale(const float4* in, float4* out, int n, float a, cudaStream_t stream);
/// Arithmetic of half (halves[i] becomes 2 halves[i] + 1) and bfloat16, in their 65536 values
void double_halves(unsigned short* halves, unsigned short* bfloats, cudaStream_t stream);

}  // namespace emulated_gpu::features
