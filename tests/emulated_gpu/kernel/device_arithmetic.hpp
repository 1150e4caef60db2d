// SPDX-License-Identifier: Apache-2.0
#pragma once

// Arithmetic functions that the host's libraries lack or name differently. Functions that are approximate on a GPU are
// exact here. @source CUDA Math API 13.0

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "emulated_gpu/kernel/intrinsics.hpp"

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __popcll(unsigned long long value) { return std::popcount(value); }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline int __clzll(long long value) { return std::countl_zero(static_cast<unsigned long long>(value)); }
inline int __ffs(int value) { return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1; }
inline int __ffsll(long long value) {
  return value == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(value)) + 1;
}
inline unsigned __brev(unsigned value) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (value >> i & 1U) << (31 - i);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long value) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(value))) << 32 |
         __brev(static_cast<unsigned>(value >> 32));
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<std::int64_t>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}

inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float value) { return std::sqrt(value); }
inline float __frcp_rn(float value) { return 1.0F / value; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float value) { return std::exp(value); }
inline float __logf(float value) { return std::log(value); }
inline float __sinf(float value) { return std::sin(value); }
inline float __cosf(float value) { return std::cos(value); }
inline float __powf(float base, float exponent) { return std::pow(base, exponent); }
inline float __saturatef(float value) { return value > 0 ? (value < 1 ? value : 1.0F) : 0.0F; }
inline float rsqrtf(float value) { return 1.0F / std::sqrt(value); }
inline double rsqrt(double value) { return 1.0 / std::sqrt(value); }

#define EMULATED_GPU_MIN_MAX(T)                    \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
EMULATED_GPU_MIN_MAX(int)
EMULATED_GPU_MIN_MAX(unsigned)
EMULATED_GPU_MIN_MAX(long)
EMULATED_GPU_MIN_MAX(unsigned long)
EMULATED_GPU_MIN_MAX(long long)
EMULATED_GPU_MIN_MAX(unsigned long long)
#undef EMULATED_GPU_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

template <typename T>
__attribute__((noinline)) T __ldg(const T* address) {
  emulated_gpu::check_read(address, sizeof(T), __builtin_return_address(0));
  return *address;
}
