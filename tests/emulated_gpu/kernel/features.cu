// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstring>

#include "features.hpp"

namespace emulated_gpu::features {
namespace {

constexpr unsigned all_lanes = 0xffffffffU;
constexpr int tile = 32;

__device__ unsigned launches = 40;
__constant__ const float constants[4] = {0.5F, -1.0F, 2.0F, 0.0F};

__device__ unsigned number_of_thread() {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return block * blockDim.x * blockDim.y * blockDim.z + thread;
}

__global__ void number(unsigned* out) {
  const unsigned i = number_of_thread();
  out[i] = i;
}

template <typename T, int rows>
__global__ void __launch_bounds__(tile* rows) transpose_tiles(const T* in, T* out, int n) {
  __shared__ T part[tile][tile + 1];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int left = static_cast<int>(blockIdx.x) * tile;
  const int top = static_cast<int>(blockIdx.y) * tile;
  for (int row = y; row < tile; row += rows) part[row][x] = in[(top + row) * n + left + x];
  __syncthreads();
  for (int row = y; row < tile; row += rows) out[(left + row) * n + top + x] = part[x][row];
}

__global__ void reverse_block(const int* in, int* out, int n) {
  extern __shared__ int values[];
  const int i = static_cast<int>(threadIdx.x);
  values[n - 1 - i] = in[i];
  __syncthreads();
  out[i] = values[i];
}

/// Has a barrier in a function that all threads of the block call.
template <int threads>
__device__ double sum_of_block(double mine) {
  __shared__ double partial[threads];
  partial[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  return partial[0];
}

__global__ void sum(const double* in, double* out) {
  const double total = sum_of_block<256>(in[number_of_thread()]);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

__global__ void count(const int* in, int* out) {
  const int mine = in[threadIdx.x];
  const int how_many = __syncthreads_count(mine);
  const int any = __syncthreads_or(mine);
  const int all = __syncthreads_and(mine);
  if (threadIdx.x == blockDim.x - 1) {
    out[0] = how_many;
    out[1] = any != 0 ? 1 : 0;
    out[2] = all != 0 ? 1 : 0;
  }
}

__global__ void vote(const int* in, unsigned* out) {
  const unsigned lane = threadIdx.x;
  unsigned* mine = out + static_cast<int>(8 * lane);
  mine[0] = __ballot_sync(all_lanes, in[lane]);
  mine[1] = __any_sync(all_lanes, in[lane] > 100) != 0 ? 1 : 0;
  mine[2] = __all_sync(all_lanes, in[lane] < 100) != 0 ? 1 : 0;
  mine[3] = __match_any_sync(all_lanes, in[lane]);
  int is_same = 0;
  mine[4] = __match_all_sync(all_lanes, in[lane] / 100, &is_same);
  mine[5] = static_cast<unsigned>(__reduce_add_sync(all_lanes, in[lane]));
  mine[6] = static_cast<unsigned>(__reduce_max_sync(all_lanes, in[lane]));
  const unsigned half = lane < 16 ? 0x0000ffffU : 0xffff0000U;
  mine[7] = __ballot_sync(half, in[lane]);
}

__global__ void shuffle(const int* in, int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const int mine = in[lane];
  out[6 * lane] = __shfl_sync(all_lanes, mine, 3, 8);
  out[6 * lane + 1] = __shfl_up_sync(all_lanes, mine, 2);
  out[6 * lane + 2] = __shfl_down_sync(all_lanes, mine, 2, 16);
  out[6 * lane + 3] = __shfl_xor_sync(all_lanes, mine, 5);
  int total = mine;
  for (int apart = 16; apart > 0; apart /= 2) total += __shfl_xor_sync(all_lanes, total, apart);
  out[6 * lane + 4] = total;
  int so_far = mine;
  for (int apart = 1; apart < warpSize; apart *= 2) {
    const int below = __shfl_up_sync(all_lanes, so_far, static_cast<unsigned>(apart));
    if (lane >= apart) so_far += below;
  }
  out[6 * lane + 5] = so_far;
}

__global__ void sum_halves(const int* in, int* out) {
  __shared__ int values[64];
  const unsigned i = threadIdx.x;
  const unsigned half = i % 32 < 16 ? 0x0000ffffU : 0xffff0000U;
  values[i] = in[i];
  __syncwarp(half);
  for (unsigned apart = 8; apart > 0; apart /= 2) {
    const int sum = values[i] + values[i ^ apart];
    __syncwarp(half);
    values[i] = sum;
    __syncwarp(half);
  }
  out[i] = values[i];
}

__global__ void sum_fours(const unsigned char* in, unsigned* out) {
  __shared__ unsigned words[64];
  const unsigned i = threadIdx.x;
  if (i < 64) words[i] = 0xffffffffU;
  __syncthreads();
  reinterpret_cast<unsigned char*>(words)[i] = in[i];
  __syncthreads();
  if (i >= 64) return;
  unsigned sum = 0;
  for (unsigned byte = 0; byte < 4; ++byte) sum += words[i] >> (8 * byte) & 0xffU;
  out[i] = sum;
}

__global__ void count_values(const int* in, unsigned* counts, int n) {
  __shared__ unsigned of_block[16];
  if (threadIdx.x < 16) of_block[threadIdx.x] = 0;
  __syncthreads();
  for (int i = static_cast<int>(number_of_thread()); i < n; i += static_cast<int>(gridDim.x * blockDim.x))
    atomicAdd(&of_block[in[i]], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(counts + threadIdx.x, of_block[threadIdx.x]);
}

__global__ void change(unsigned* out) {
  const unsigned i = number_of_thread();
  atomicAdd(out, i);
  atomicSub(out + 1, 1U);
  atomicMax(out + 2, i);
  atomicMin(reinterpret_cast<int*>(out + 3), -static_cast<int>(i));
  atomicOr(out + 4, 1U << (i % 32));
  atomicXor(out + 5, 3U);
  atomicInc(out + 6, 6U);
  atomicDec(out + 7, 6U);
  atomicAdd(reinterpret_cast<float*>(out + 8), 0.5F);
  atomicExch(out + 9, 7U);
  atomicAdd(reinterpret_cast<unsigned long long*>(out + 10), 0x100000001ULL);
}

__global__ void add_by_swap(const float* in, float* sum) {
  auto* const bits = reinterpret_cast<unsigned*>(sum);
  unsigned before = atomicAdd(bits, 0U);
  unsigned assumed = 0;
  do {
    assumed = before;
    before = atomicCAS(bits, assumed, __float_as_uint(__uint_as_float(assumed) + in[number_of_thread()]));
  } while (before != assumed);
}

__global__ void draw(unsigned* counter, unsigned* out) { out[number_of_thread()] = atomicAdd(counter, 1U); }

__global__ void count_launch(unsigned* out) { *out = ++launches; }

struct Scaled {
  float by;
  __device__ float operator()(float value) const { return by * value; }
};

template <typename F>
__global__ void apply(const float4* in, float4* out, int n, F f) {
  const int i = static_cast<int>(number_of_thread());
  if (4 * i >= n) return;
  float added[4];
  std::memcpy(added, constants, sizeof added);
  const float4 value = __ldg(in + i);
  out[i] =
      make_float4(f(value.x) + added[0], f(value.y) + added[1], f(value.z) + added[2], fmaxf(f(value.w), added[3]));
}

__global__ void twice_and_one(__half* halves, __nv_bfloat16* bfloats) {
  const unsigned i = number_of_thread();
  halves[i] = __hadd(__hmul(halves[i], __float2half(2.0F)), __float2half(1.0F));
  bfloats[i] = __float2bfloat16(2 * __bfloat162float(bfloats[i]) + 1);
}

}  // namespace

void number_threads(unsigned* out, dim3 grid, dim3 block, cudaStream_t stream) {
  number<<<grid, block, 0, stream>>>(out);
}

void transpose(const float* in, float* out, int n, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(n / tile);
  transpose_tiles<float, 8><<<dim3(tiles, tiles), dim3(tile, 8), 0, stream>>>(in, out, n);
}

void reverse(const int* in, int* out, int n, cudaStream_t stream) {
  reverse_block<<<1, static_cast<unsigned>(n), static_cast<std::size_t>(n) * sizeof(int), stream>>>(in, out, n);
}

void sum_blocks(const double* in, double* out, int blocks, cudaStream_t stream) {
  sum<<<static_cast<unsigned>(blocks), 256, 0, stream>>>(in, out);
}

void count_in_block(const int* in, int* out, int n, cudaStream_t stream) {
  count<<<1, static_cast<unsigned>(n), 0, stream>>>(in, out);
}

void vote_in_warp(const int* in, unsigned* out, cudaStream_t stream) { vote<<<1, 32, 0, stream>>>(in, out); }

void shuffle_in_warp(const int* in, int* out, cudaStream_t stream) { shuffle<<<1, 32, 0, stream>>>(in, out); }

void sum_half_warps(const int* in, int* out, cudaStream_t stream) { sum_halves<<<1, 64, 0, stream>>>(in, out); }

void sum_bytes(const unsigned char* in, unsigned* out, cudaStream_t stream) {
  sum_fours<<<1, 256, 0, stream>>>(in, out);
}

void histogram(const int* in, unsigned* counts, int n, cudaStream_t stream) {
  count_values<<<3, 48, 0, stream>>>(in, counts, n);
}

void change_atomically(unsigned* out, cudaStream_t stream) { change<<<8, 125, 0, stream>>>(out); }

void add_by_swapping(const float* in, float* sum, int n, cudaStream_t stream) {
  add_by_swap<<<1, static_cast<unsigned>(n), 0, stream>>>(in, sum);
}

void draw_numbers(unsigned* counter, unsigned* out, cudaStream_t stream) { draw<<<4, 64, 0, stream>>>(counter, out); }

void count_launches(unsigned* out, cudaStream_t stream) { count_launch<<<1, 1, 0, stream>>>(out); }

void scale(const float4* in, float4* out, int n, float a, cudaStream_t stream) {
  const Scaled scaled{a};
  apply<<<static_cast<unsigned>(n / 4 + 31) / 32, 32, 0, stream>>>(in, out,
                                                                   n,  // elements, not vectors
                                                                   scaled);
}

void double_halves(unsigned short* halves, unsigned short* bfloats, cudaStream_t stream) {
  twice_and_one<<<256, 256, 0, stream>>>(reinterpret_cast<__half*>(halves), reinterpret_cast<__nv_bfloat16*>(bfloats));
}

}  // namespace emulated_gpu::features
