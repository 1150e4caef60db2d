// SPDX-License-Identifier: Apache-2.0
#pragma once

// Atomic functions for the types that CUDA supports. @source CUDA C++ Programming Guide 13.0, atomic functions

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <concepts>
#include <type_traits>

#include "emulated_gpu/kernel/intrinsics.hpp"

namespace emulated_gpu {

template <typename T, typename... Types>
concept OneOf = (std::same_as<T, Types> || ...);

template <typename T, typename Change>
T change(T* address, Change with, const void* place) {
  const T before = from_bits<T>(begin_atomic(address, sizeof(T), place));
  end_atomic(address, sizeof(T), to_bits<T>(with(before)));
  return before;
}

}  // namespace emulated_gpu

// The functions are not inlined, because the return address is the place in the kernel. Atomics of a block and of the
// system are the same here.
#define EMULATED_GPU_ATOMIC_AS(function, result, ...)                                                \
  template <emulated_gpu::OneOf<__VA_ARGS__> T>                                                      \
  __attribute__((noinline)) T function(T* address, std::type_identity_t<T> value) {                  \
    return emulated_gpu::change(                                                                     \
        address, [value](T before) { return static_cast<T>(result); }, __builtin_return_address(0)); \
  }
#define EMULATED_GPU_ATOMIC(function, result, ...)              \
  EMULATED_GPU_ATOMIC_AS(function, result, __VA_ARGS__)         \
  EMULATED_GPU_ATOMIC_AS(function##_block, result, __VA_ARGS__) \
  EMULATED_GPU_ATOMIC_AS(function##_system, result, __VA_ARGS__)
EMULATED_GPU_ATOMIC(atomicAdd, before + value, int, unsigned, unsigned long long, float, double, __half, __half2,
                    __nv_bfloat16, __nv_bfloat162)
EMULATED_GPU_ATOMIC(atomicSub, before - value, int, unsigned)
EMULATED_GPU_ATOMIC(atomicMin, value < before ? value : before, int, unsigned, long long, unsigned long long)
EMULATED_GPU_ATOMIC(atomicMax, before < value ? value : before, int, unsigned, long long, unsigned long long)
EMULATED_GPU_ATOMIC(atomicExch, (static_cast<void>(before), value), int, unsigned, unsigned long long, float)
EMULATED_GPU_ATOMIC(atomicAnd, before& value, int, unsigned, unsigned long long)
EMULATED_GPU_ATOMIC(atomicOr, before | value, int, unsigned, unsigned long long)
EMULATED_GPU_ATOMIC(atomicXor, before ^ value, int, unsigned, unsigned long long)
EMULATED_GPU_ATOMIC(atomicInc, before >= value ? 0 : before + 1, unsigned)
EMULATED_GPU_ATOMIC(atomicDec, before == 0 || before > value ? value : before - 1, unsigned)
#undef EMULATED_GPU_ATOMIC
#undef EMULATED_GPU_ATOMIC_AS

#define EMULATED_GPU_COMPARE_AND_SWAP(function)                                                                      \
  template <emulated_gpu::OneOf<int, unsigned, unsigned long long, unsigned short> T>                                \
  __attribute__((noinline)) T function(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) { \
    return emulated_gpu::change(                                                                                     \
        address, [compare, value](T before) { return before == compare ? value : before; },                          \
        __builtin_return_address(0));                                                                                \
  }
EMULATED_GPU_COMPARE_AND_SWAP(atomicCAS)
EMULATED_GPU_COMPARE_AND_SWAP(atomicCAS_block)
EMULATED_GPU_COMPARE_AND_SWAP(atomicCAS_system)
#undef EMULATED_GPU_COMPARE_AND_SWAP
