// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emulated_gpu/kernel/conflicts.hpp"
#include "emulated_gpu/kernel/running.hpp"

namespace emulated_gpu {

/// An access of a kernel's thread to memory.
struct MemoryAccess {
  const void* address;
  std::size_t bytes;
  Access access;
  bool is_aligned;    ///< has to be a multiple of its size; the size is a power of two then
  const void* place;  ///< a return address in the kernel's code
};

/// Nothing is known any more of what may be used: memory may have been freed since. With each step of a kernel.
void begin_accesses();

/// Where the last accesses went, by page: allocations share none.
struct UsableRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
constexpr std::size_t usable_ranges_count = 512;
extern std::array<UsableRange, usable_ranges_count> usable_ranges;

/// The rest of check_access. Ends the process if the access is wrong.
void check_elsewhere(const MemoryAccess& access);

/// Does nothing outside kernels: files with kernels have functions of the host, too.
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
