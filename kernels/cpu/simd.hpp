// SPDX-License-Identifier: Apache-2.0
#pragma once

// Vectors of one instruction set for the files that include this. LOCKSTEP_VECTOR_BYTES is their width, or 0 for none.
// Everything has internal linkage, because each of those files is compiled for another instruction set.

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

namespace lockstep::kernels {
namespace {

constexpr std::int64_t cache_line = 64;

template <typename T, int lanes>
struct PackOf {
  using Type __attribute__((vector_size(lanes * sizeof(T)))) = T;
};
template <typename T>
struct PackOf<T, 1> {
  using Type = T;
};
/// `lanes` elements side by side. A pack of one element is a plain number, so the same code handles remainders.
template <typename T, int lanes>
using Pack = typename PackOf<T, lanes>::Type;

template <typename T>
constexpr int lanes_of = LOCKSTEP_VECTOR_BYTES == 0 ? 1 : static_cast<int>(LOCKSTEP_VECTOR_BYTES / sizeof(T));

template <typename To, typename From>
LOCKSTEP_INLINE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

/// Converts each lane by value.
template <typename To, int lanes, typename From>
LOCKSTEP_INLINE Pack<To, lanes> converted(const From& from) {
  if constexpr (lanes == 1) {
    return static_cast<To>(from);
  } else {
    return __builtin_convertvector(from, Pack<To, lanes>);
  }
}

template <typename P>
LOCKSTEP_INLINE P load(const char* from) {
  P pack;
  __builtin_memcpy(&pack, from, sizeof pack);
  return pack;
}

template <typename P>
LOCKSTEP_INLINE void store(char* to, const P& pack) {
  __builtin_memcpy(to, &pack, sizeof pack);
}

#if defined(__x86_64__)

/// Writes past the cache if the address is aligned to the pack, and through the cache otherwise.
template <typename P>
LOCKSTEP_INLINE void store_streaming(char* to, const P& pack) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof pack != 0) return store(to, pack);
  if constexpr (sizeof pack == 8) _mm_stream_si64(reinterpret_cast<long long*>(to), bits_as<long long>(pack));
  if constexpr (sizeof pack == 16) _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits_as<__m128i>(pack));
#if LOCKSTEP_VECTOR_BYTES >= 32
  if constexpr (sizeof pack == 32) _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bits_as<__m256i>(pack));
#endif
#if LOCKSTEP_VECTOR_BYTES >= 64
  if constexpr (sizeof pack == 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bits_as<__m512i>(pack));
#endif
}

/// Orders streaming stores before later stores, such as the flag that announces the data.
LOCKSTEP_INLINE void finish_streaming() { _mm_sfence(); }

// If both operands are NaNs, an x86 instruction returns the first one, but a compiler may swap the operands of a + b.
// Assembly keeps their order, so that all instruction sets return the same NaN.
#if defined(__AVX__)
#define LOCKSTEP_IN_ORDER(instruction)                                    \
  auto result = a;                                                        \
  __asm__("v" instruction " %2, %1, %0" : "=v"(result) : "v"(a), "v"(b)); \
  return result
#else
#define LOCKSTEP_IN_ORDER(instruction)               \
  __asm__(instruction " %1, %0" : "+x"(a) : "x"(b)); \
  return a
#endif
// clang-format off
template <typename V> LOCKSTEP_INLINE V add_floats(V a, V b) { LOCKSTEP_IN_ORDER("addps"); }
template <typename V> LOCKSTEP_INLINE V add_doubles(V a, V b) { LOCKSTEP_IN_ORDER("addpd"); }
template <typename V> LOCKSTEP_INLINE V multiply_floats(V a, V b) { LOCKSTEP_IN_ORDER("mulps"); }
template <typename V> LOCKSTEP_INLINE V multiply_doubles(V a, V b) { LOCKSTEP_IN_ORDER("mulpd"); }
template <> LOCKSTEP_INLINE float add_floats(float a, float b) { LOCKSTEP_IN_ORDER("addss"); }
template <> LOCKSTEP_INLINE double add_doubles(double a, double b) { LOCKSTEP_IN_ORDER("addsd"); }
template <> LOCKSTEP_INLINE float multiply_floats(float a, float b) { LOCKSTEP_IN_ORDER("mulss"); }
template <> LOCKSTEP_INLINE double multiply_doubles(double a, double b) { LOCKSTEP_IN_ORDER("mulsd"); }
// clang-format on
#undef LOCKSTEP_IN_ORDER

#else

template <typename P>
LOCKSTEP_INLINE void store_streaming(char* to, const P& pack) {
  store(to, pack);
}
LOCKSTEP_INLINE void finish_streaming() {}

// clang-format off
template <typename V> LOCKSTEP_INLINE V add_floats(V a, V b) { return a + b; }
template <typename V> LOCKSTEP_INLINE V add_doubles(V a, V b) { return a + b; }
template <typename V> LOCKSTEP_INLINE V multiply_floats(V a, V b) { return a * b; }
template <typename V> LOCKSTEP_INLINE V multiply_doubles(V a, V b) { return a * b; }
// clang-format on

#endif

}  // namespace
}  // namespace lockstep::kernels
