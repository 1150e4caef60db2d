// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Returns the state of a process of this host: "running", "sleeping", "stopped", "in an uninterruptible wait" (for a
/// disk, a network file system or a page), or "gone".
std::string process_state(int process);

/// Returns the parent of a process of this host; 0 if there is none.
int parent_of(int process);

/// Returns a number that grows while threads of this process other than the calling one compute, read or write. A
/// process whose number stays the same is waiting.
std::uint64_t work_of_other_threads();

}  // namespace lockstep
