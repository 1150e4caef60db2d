// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace lockstep {

/// Vector extensions of this processor that kernels choose by. A choice must be agreed by all ranks, since it can
/// change the rounding.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool avx512f = false;
  bool avx512_bf16 = false;
  bool amx_bf16 = false;

  /// Those present, weakest first, by the names the compiler uses ("avx2", "avx512f", …).
  [[nodiscard]] std::vector<std::string_view> names() const;
  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

/// Asks the processor and the operating system; all false on other architectures than x86-64.
CpuFeatures detect_cpu_features();

}  // namespace lockstep
