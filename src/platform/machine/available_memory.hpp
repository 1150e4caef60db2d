// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>

#include "lockstep/base/types.hpp"

namespace lockstep {

inline constexpr Bytes unknown_memory{std::numeric_limits<std::int64_t>::max()};

/// How much more memory this process may fill before the kernel starts killing: the least of what the machine has left
/// and what the limits of the process's control groups (versions 1 and 2), such as a container's or a batch job's,
/// leave. The kernel does not refuse memory beyond that, it kills; so one has to ask.
/// @param root  where /proc and /sys are looked for
/// @return unknown_memory where nothing says
Bytes available_memory(const std::filesystem::path& root = "/");

/// All memory of the machine, or unknown_memory.
Bytes installed_memory(const std::filesystem::path& root = "/");

}  // namespace lockstep
