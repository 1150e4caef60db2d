// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// The stack of a thread of this process.
struct ThreadStack {
  int thread = 0;                   ///< thread id of Linux; that of the first thread is the process's
  std::string name;                 ///< "train", or what the thread calls itself
  std::vector<std::string> frames;  ///< functions, innermost first; empty if the thread did not answer
};

/// Lets the calling thread be asked for its stack while it computes, and this process write down the stacks of its
/// threads: each does so itself in a handler of SIGURG, which is ignored by default, so that neither ptrace nor root is
/// needed. @return false if the program handles that signal itself
bool prepare_for_stacks();

/// Returns the stacks of all threads of this process but the calling one; the first thread comes first. A thread that
/// blocks signals, does not answer within 0.1 s, or runs without having called use_signal_stack()
/// (base/signal_stack.hpp) has no frames. Functions that the program does not export appear as object and offset, which
/// addr2line resolves. One thread calls it at a time. @pre prepare_for_stacks() was true
std::vector<ThreadStack> stacks_of_other_threads();

}  // namespace lockstep
