// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/cpu_features.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lockstep {

std::vector<std::string_view> CpuFeatures::names() const {
  std::vector<std::string_view> names;
  if (avx2) names.emplace_back("avx2");
  if (fma) names.emplace_back("fma");
  if (avx512f) names.emplace_back("avx512f");
  if (avx512_bf16) names.emplace_back("avx512bf16");
  if (amx_bf16) names.emplace_back("amx-bf16");
  return names;
}

#if defined(__x86_64__)

namespace {

/// Leaf 7 of CPUID. The compiler's builtins know the vector extensions, and whether the system saves their registers,
/// but not AMX in every compiler lockstep is built with.
/// @source Intel SDM vol. 2A, CPUID: leaf 7, sub-leaf 0, EDX bits 22 (AMX-BF16) and 24 (AMX-TILE)
bool processor_has_amx_bf16() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned needed = 1U << 22 | 1U << 24;
  return (d & needed) == needed;
}

/// Whether the system saves the tile registers. @source Intel SDM vol. 1, 13.3: XCR0 bits 17 (TILECFG) and 18
/// (TILEDATA)
bool system_saves_tiles() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  unsigned low = 0;
  unsigned high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tiles = 1U << 17 | 1U << 18;
  return (low & tiles) == tiles;
}

}  // namespace

CpuFeatures detect_cpu_features() {
  __builtin_cpu_init();
  return {.avx2 = __builtin_cpu_supports("avx2") != 0,
          .fma = __builtin_cpu_supports("fma") != 0,
          .avx512f = __builtin_cpu_supports("avx512f") != 0,
          .avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0,
          .amx_bf16 = processor_has_amx_bf16() && system_saves_tiles()};
}

#else

CpuFeatures detect_cpu_features() { return {}; }

#endif

}  // namespace lockstep
