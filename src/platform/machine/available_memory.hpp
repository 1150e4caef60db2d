// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>

#include "lockstep/base/types.hpp"

namespace lockstep {

inline constexpr Bytes unknown_memory{std::numeric_limits<std::int64_t>::max()};

/// Returns how much more memory this process may fill before the kernel starts to kill: the least of the memory that
/// the machine has left and that the limits of the process's control groups (versions 1 and 2) leave, such as those of
/// a container or a batch job. Callers have to ask, because the kernel does not refuse memory beyond that but kills
/// processes.
/// @param root  directory that contains /proc and /sys
/// @return unknown_memory if no source gives a limit
Bytes available_memory(const std::filesystem::path& root = "/");

/// Returns the memory of this process that is in the machine's memory, shared memory included; 0 if it is not known.
Bytes resident_memory(const std::filesystem::path& root = "/");

/// Returns the total memory of the machine, or unknown_memory.
Bytes installed_memory(const std::filesystem::path& root = "/");

}  // namespace lockstep
