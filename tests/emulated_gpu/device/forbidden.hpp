// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

/// Ranges of pinned memory that the host must not access for now, and the handler of the faults that detect such
/// accesses. Protection works by pages; an access to other bytes of such a page succeeds by a single step with the page
/// open.
namespace emulated_gpu {

void forbid_range(const std::byte* address, std::size_t bytes, const std::string& why);
/// Reverts one forbid_range of the same range.
void allow_range(const std::byte* address, std::size_t bytes);
/// Opens all pages while kernels run.
void open_forbidden();
void close_forbidden();

/// Explains faults from now on. An access to a forbidden byte is a violation; for other faults, `explain` is called
/// first, and then the previous fault handler.
void watch_faults(void (*explain)(const std::byte* address, bool is_write));

}  // namespace emulated_gpu
