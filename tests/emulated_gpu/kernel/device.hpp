// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that a translated .cu file uses without an include directive: each thread's indices, barriers, votes,
// shuffles, atomics and arithmetic. @source CUDA C++ Programming Guide 13.0, C++ language extensions

#include <cstddef>

// The copies of a kernel are checked, too.
extern "C" {
void* memcpy(void* to, const void* from, std::size_t bytes) noexcept __asm__("emulated_gpu_memcpy");
void* memmove(void* to, const void* from, std::size_t bytes) noexcept __asm__("emulated_gpu_memmove");
void* memset(void* to, int value, std::size_t bytes) noexcept __asm__("emulated_gpu_memset");
}

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "emulated_gpu/kernel/device_arithmetic.hpp"
#include "emulated_gpu/kernel/device_atomics.hpp"
#include "emulated_gpu/kernel/intrinsics.hpp"
#include "emulated_gpu/kernel/launch.hpp"

#define threadIdx (::emulated_gpu::thread_index())
#define blockIdx (::emulated_gpu::block_index())
#define blockDim (::emulated_gpu::block_extent())
#define gridDim (::emulated_gpu::grid_extent())
#define warpSize 32
#define __launch_bounds__(...)

// In each call, `place` is the kernel's source location.

inline void __syncthreads(const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  emulated_gpu::wait_for_block(false, "__syncthreads", place);
}
inline int __syncthreads_count(int predicate, const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  return static_cast<int>(emulated_gpu::wait_for_block(predicate != 0, "__syncthreads_count", place));
}
inline int __syncthreads_or(int predicate, const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  return emulated_gpu::wait_for_block(predicate != 0, "__syncthreads_or", place) != 0 ? 1 : 0;
}
inline int __syncthreads_and(int predicate, const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  const unsigned threads = emulated_gpu::threads_of_block();
  return emulated_gpu::wait_for_block(predicate != 0, "__syncthreads_and", place) == threads ? 1 : 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffU, const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  emulated_gpu::wait_for_lanes(mask, place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  return emulated_gpu::vote(mask, predicate != 0, "__ballot_sync", place);
}
inline int __any_sync(unsigned mask, int predicate, const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  return emulated_gpu::vote(mask, predicate != 0, "__any_sync", place) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  return emulated_gpu::vote(mask, predicate != 0, "__all_sync", place) == emulated_gpu::lanes_there_are(mask) ? 1 : 0;
}
/// Returns the calling lane alone, because threads run one by one; this is a result that a GPU may give.
inline unsigned __activemask() {
  const dim3 extent = blockDim;
  const uint3 index = threadIdx;
  return 1U << (index.x + extent.x * (index.y + extent.y * index.z)) % 32;
}

template <typename T>
unsigned __match_any_sync(unsigned mask, T value, const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return emulated_gpu::match(mask, emulated_gpu::to_bits(value), "__match_any_sync", place);
}
template <typename T>
unsigned __match_all_sync(unsigned mask, T value, int* predicate,
                          const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  const unsigned lanes = emulated_gpu::lanes_there_are(mask);
  *predicate = emulated_gpu::match(mask, emulated_gpu::to_bits(value), "__match_all_sync", place) == lanes ? 1 : 0;
  return *predicate != 0 ? lanes : 0;
}

// This is where translated sources put __device__ variables. The linker defines the ends, or leaves them undefined if
// there are no variables.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern char __start_emulated_gpu_variables[];  // NOLINT: the linker's name
[[gnu::weak, gnu::visibility("hidden")]] extern char __stop_emulated_gpu_variables[];   // NOLINT: the linker's name
}
namespace emulated_gpu {
[[maybe_unused]] static const bool has_variables =
    add_variables_of_gpu(__start_emulated_gpu_variables, __stop_emulated_gpu_variables);
}

#define EMULATED_GPU_REDUCTION(function, T, name, how)                                                           \
  inline T function(unsigned mask, T value, const emulated_gpu::Place& place = emulated_gpu::Place::current()) { \
    return emulated_gpu::name(mask, value, emulated_gpu::Reduction::how, #function, place);                      \
  }
EMULATED_GPU_REDUCTION(__reduce_add_sync, unsigned, reduce_unsigned, add)
EMULATED_GPU_REDUCTION(__reduce_min_sync, unsigned, reduce_unsigned, min)
EMULATED_GPU_REDUCTION(__reduce_max_sync, unsigned, reduce_unsigned, max)
EMULATED_GPU_REDUCTION(__reduce_and_sync, unsigned, reduce_unsigned, bit_and)
EMULATED_GPU_REDUCTION(__reduce_or_sync, unsigned, reduce_unsigned, bit_or)
EMULATED_GPU_REDUCTION(__reduce_xor_sync, unsigned, reduce_unsigned, bit_xor)
EMULATED_GPU_REDUCTION(__reduce_add_sync, int, reduce_signed, add)
EMULATED_GPU_REDUCTION(__reduce_min_sync, int, reduce_signed, min)
EMULATED_GPU_REDUCTION(__reduce_max_sync, int, reduce_signed, max)
#undef EMULATED_GPU_REDUCTION

#define EMULATED_GPU_SHUFFLE(function, Operand, source)                                                       \
  template <typename T>                                                                                       \
  T function(unsigned mask, T value, Operand operand, int width = 32,                                         \
             const emulated_gpu::Place& place = emulated_gpu::Place::current()) {                             \
    return emulated_gpu::from_bits<T>(emulated_gpu::shuffle(mask, emulated_gpu::to_bits(value),               \
                                                            static_cast<int>(operand), width,                 \
                                                            emulated_gpu::Source::source, #function, place)); \
  }
EMULATED_GPU_SHUFFLE(__shfl_sync, int, lane)
EMULATED_GPU_SHUFFLE(__shfl_up_sync, unsigned, lane_below)
EMULATED_GPU_SHUFFLE(__shfl_down_sync, unsigned, lane_above)
EMULATED_GPU_SHUFFLE(__shfl_xor_sync, int, lane_across)
#undef EMULATED_GPU_SHUFFLE

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned /*at_most*/) { emulated_gpu::pause(); }
[[noreturn]] inline void __trap(const emulated_gpu::Place& place = emulated_gpu::Place::current()) {
  emulated_gpu::trap(place);
}
