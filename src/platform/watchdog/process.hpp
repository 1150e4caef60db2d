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

/// Returns a number that grows while threads of this process other than the calling one and onlookers compute, read or
/// write. A process whose number stays the same is waiting.
std::uint64_t work_of_other_threads();

/// While it exists, what the thread that made it does is no work of its process. A thread that only shows how long the
/// others take would otherwise hide that they wait for ever. The same thread destroys it.
class Onlooker {
 public:
  Onlooker();
  Onlooker(const Onlooker&) = delete;
  Onlooker& operator=(const Onlooker&) = delete;
  ~Onlooker();
};

}  // namespace lockstep
