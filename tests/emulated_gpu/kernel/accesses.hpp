// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emulated_gpu/kernel/conflicts.hpp"
#include "emulated_gpu/kernel/running.hpp"

namespace emulated_gpu {

/// A memory access of a kernel's thread.
struct MemoryAccess {
  const void* address;
  std::size_t bytes;
  Access access;
  bool is_aligned;    ///< whether the address has to be a multiple of the size, which then is a power of two
  const void* place;  ///< a return address in the kernel's code
};

/// Forgets which memory may be used, because memory may have been freed since. Each step of a kernel begins with it.
void begin_accesses();

/// The ranges of the last accesses, by page; allocations share no page.
struct UsableRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
constexpr std::size_t usable_ranges_count = 512;
extern std::array<UsableRange, usable_ranges_count> usable_ranges;

/// Does the remaining checks of check_access. Ends the process if the access is invalid.
void check_elsewhere(const MemoryAccess& access);

/// Checks an access. It does nothing outside kernels, because files with kernels have host functions, too.
inline void check_access(const MemoryAccess& access) {
  const Running* thread = running;
  if (thread == nullptr) return;
  const auto at = reinterpret_cast<std::uintptr_t>(access.address);
  if (at - thread->stack < thread->stack_bytes) return;
  const UsableRange& range = usable_ranges[at / 4096 % usable_ranges_count];
  const std::size_t offset = at - range.begin;
  const bool is_known = offset < range.bytes && access.bytes <= range.bytes - offset;
  if (!is_known || (access.is_aligned && (at & (access.bytes - 1)) != 0)) check_elsewhere(access);
}

}  // namespace emulated_gpu
