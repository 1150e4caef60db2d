// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

/// Bytes of pinned memory that the host must leave alone for now, and the handler of the faults by which touching them
/// shows. Pages are what can be closed; an access to other bytes of such a page goes through, by a single step with the
/// page open.
namespace emulated_gpu {

void forbid_range(const std::byte* address, std::size_t bytes, const std::string& why);
/// Undoes one forbid_range of the same range.
void allow_range(const std::byte* address, std::size_t bytes);
/// All pages, for the time in which kernels run.
void open_forbidden();
void close_forbidden();

/// From now on, explains faults: a forbidden byte is a violation; anything else `explain` is asked about first, and
/// then whoever handled faults before.
void watch_faults(void (*explain)(const std::byte* address, bool is_write));

}  // namespace emulated_gpu
