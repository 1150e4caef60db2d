// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstring>

#include "wrong.hpp"

namespace emulated_gpu::wrong {
namespace {

constexpr unsigned all_lanes = 0xffffffffU;

float variable_of_host = 3;

__global__ void reads_behind_the_end(float* memory) {
  memory[threadIdx.x] = memory[threadIdx.x + 1];  // wrong: behind the end
}

__global__ void writes_before_the_beginning(float* memory) {
  if (threadIdx.x == 5) *(memory - 1024) = 0;  // wrong: before the beginning
}

__global__ void is_misaligned(float* memory) {
  auto* bytes = reinterpret_cast<char*>(memory) + 2;
  if (threadIdx.x == 7) *reinterpret_cast<int*>(bytes) = 1;  // wrong: misaligned
}

__global__ void reads_a_misaligned_vector(float* memory) {
  if (threadIdx.x == 1) memory[0] = reinterpret_cast<const float4*>(memory + 1)->w;
  if (threadIdx.x == 2)
    reinterpret_cast<float4*>(memory)[0] = *reinterpret_cast<const float4*>(memory + 2);  // wrong: misaligned vector
}

__global__ void copies_too_much(float* memory, int count) {
  if (threadIdx.x == 3)
    std::memcpy(memory, memory + 32, static_cast<std::size_t>(count) * sizeof(float));  // wrong: copies too much
}

__global__ void goes_by_null(float* memory) {
  const float* nowhere = memory == nullptr ? memory + 1 : nullptr;
  memory[threadIdx.x] = nowhere[threadIdx.x];  // wrong: null
}

__global__ void writes_a_variable_of_the_host(float* variable) {
  *variable = 4;  // wrong: variable of the host
}

__global__ void changes_behind_the_end(float* memory) {
  atomicAdd(memory + 64 + threadIdx.x, 1.0F);  // wrong: atomic behind the end
}

__global__ void reads_by_cache_behind_the_end(float* memory) {
  memory[threadIdx.x] = __ldg(memory + 64);  // wrong: cached read behind the end
}

__global__ void lacks_a_barrier(float* memory) {
  __shared__ float values[64];
  values[threadIdx.x] = memory[threadIdx.x];       // wrong: lacks a barrier, write
  memory[threadIdx.x] = values[63 - threadIdx.x];  // wrong: lacks a barrier, read
}

__global__ void writes_together(float* memory) {
  __shared__ float value;
  value = memory[threadIdx.x];  // wrong: writes together
  __syncthreads();
  memory[threadIdx.x] = value;
}

__global__ void writes_what_was_read(float* memory) {
  __shared__ float values[64];
  values[threadIdx.x] = memory[threadIdx.x];
  __syncthreads();
  memory[threadIdx.x] = values[0];       // wrong: writes what was read, read
  if (threadIdx.x == 63) values[0] = 0;  // wrong: writes what was read, write
}

__global__ void reads_a_word_of_bytes(float* memory) {
  __shared__ unsigned words[16];
  reinterpret_cast<unsigned char*>(words)[threadIdx.x] = 1;  // wrong: word of bytes, write
  if (threadIdx.x % 4 == 0)
    memory[threadIdx.x] = static_cast<float>(words[threadIdx.x / 4]);  // wrong: word of bytes, read
}

__global__ void shuffles_instead_of_a_barrier(float* memory) {
  __shared__ float values[64];
  values[threadIdx.x] = memory[threadIdx.x];
  memory[threadIdx.x] = __shfl_sync(all_lanes, 1.0F, 0);
  memory[threadIdx.x] += values[threadIdx.x ^ 1U];  // wrong: shuffle is no barrier
}

__global__ void meets_in_the_warp_only(float* memory) {
  __shared__ float values[64];
  values[threadIdx.x] = memory[threadIdx.x];  // wrong: another warp, write
  __syncwarp();
  memory[threadIdx.x] = values[threadIdx.x ^ 32U];  // wrong: another warp, read
}

__global__ void mixes_atomics(float* memory) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x % 2 == 0) atomicAdd(&count, 1);                // wrong: mixes atomics, one
  if (threadIdx.x == 33) memory[0] = static_cast<float>(count);  // wrong: mixes atomics, other
}

__global__ void reads_behind_a_shared_variable(float* memory) {
  __shared__ float first[16];
  if (threadIdx.x == 0) memory[0] = first[16];  // wrong: behind a shared variable
}

__global__ void meets_at_two_places(float* memory) {
  if (memory[threadIdx.x] > 10) {
    __syncthreads();  // wrong: two places, one
  } else {
    __syncthreads();  // wrong: two places, other
  }
}

__global__ void ends_before_the_barrier(float* memory) {
  if (threadIdx.x == 40) return;
  __syncthreads();  // wrong: barrier without one
  memory[threadIdx.x] = 0;
}

__global__ void is_not_in_the_mask(float* memory) {
  memory[threadIdx.x] = static_cast<float>(__ballot_sync(0x0000ffffU, 1));  // wrong: not in the mask
}

__global__ void has_ended(float* memory) {
  if (threadIdx.x == 9) return;
  memory[threadIdx.x] = static_cast<float>(__any_sync(all_lanes, 1));  // wrong: ended lane
}

__global__ void calls_another_function(float* memory) {
  if (threadIdx.x % 2 == 0) {
    __syncwarp();  // wrong: function, one
  } else {
    memory[threadIdx.x] = static_cast<float>(__shfl_sync(all_lanes, 1, 0));  // wrong: function, other
  }
}

__global__ void has_two_masks(float* memory) {
  const unsigned mask = threadIdx.x % 2 == 0 ? all_lanes : 0x7fffffffU;
  if (threadIdx.x % 32 == 31) return;
  memory[threadIdx.x] = static_cast<float>(__all_sync(mask, 1));  // wrong: two masks
}

__global__ void reads_a_lane_that_takes_no_part(float* memory) {
  if (threadIdx.x % 32 < 16)
    memory[threadIdx.x] = __shfl_down_sync(0x0000ffffU, memory[threadIdx.x], 8);  // wrong: no part
}

__global__ void waits_here_and_there(float* memory) {
  if (threadIdx.x < 32) {
    __syncthreads();  // wrong: block or warp, block
  } else if (threadIdx.x > 32) {
    memory[threadIdx.x] = static_cast<float>(__shfl_sync(all_lanes, 1, 0));  // wrong: block or warp, warp
  } else {
    __syncthreads();
  }
}

__global__ void needs_too_much(float* memory) {
  __shared__ float a[8192];
  __shared__ float b[8192];  // wrong: too much shared memory
  a[threadIdx.x] = b[threadIdx.x] = memory[threadIdx.x];
}

__global__ void gives_up(float* memory) {
  if (memory[threadIdx.x] < 100) __trap();  // wrong: trap
}

template <void (*kernel)(float*)>
void launch(float* memory, cudaStream_t stream) {
  kernel<<<1, 64, 0, stream>>>(memory);
}

}  // namespace

const Kernel kernels[] = {
    {"behind the end", launch<reads_behind_the_end>},
    {"before the beginning", launch<writes_before_the_beginning>},
    {"misaligned", launch<is_misaligned>},
    {"misaligned vector", launch<reads_a_misaligned_vector>},
    {"copies too much", [](float* memory, cudaStream_t stream) { copies_too_much<<<1, 64, 0, stream>>>(memory, 33); }},
    {"null", launch<goes_by_null>},
    {"variable of the host",
     [](float*, cudaStream_t stream) { writes_a_variable_of_the_host<<<1, 64, 0, stream>>>(&variable_of_host); }},
    {"atomic behind the end", launch<changes_behind_the_end>},
    {"cached read behind the end", launch<reads_by_cache_behind_the_end>},
    {"lacks a barrier", launch<lacks_a_barrier>},
    {"writes together", launch<writes_together>},
    {"writes what was read", launch<writes_what_was_read>},
    {"word of bytes", launch<reads_a_word_of_bytes>},
    {"shuffle is no barrier", launch<shuffles_instead_of_a_barrier>},
    {"another warp", launch<meets_in_the_warp_only>},
    {"mixes atomics", launch<mixes_atomics>},
    {"behind a shared variable", launch<reads_behind_a_shared_variable>},
    {"two places", launch<meets_at_two_places>},
    {"barrier without one", launch<ends_before_the_barrier>},
    {"not in the mask", launch<is_not_in_the_mask>},
    {"ended lane", launch<has_ended>},
    {"function", launch<calls_another_function>},
    {"two masks", launch<has_two_masks>},
    {"no part", launch<reads_a_lane_that_takes_no_part>},
    {"block or warp", launch<waits_here_and_there>},
    {"too much shared memory", launch<needs_too_much>},
    {"trap", launch<gives_up>},
};
const int kernels_count = sizeof kernels / sizeof kernels[0];

}  // namespace emulated_gpu::wrong
