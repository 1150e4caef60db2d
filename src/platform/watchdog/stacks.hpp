// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The stack of a thread of this process.
struct ThreadStack {
  int thread = 0;                   ///< thread id of Linux; that of the first thread is the process's
  std::string name;                 ///< "train", or what the thread calls itself
  std::vector<std::string> frames;  ///< functions, innermost first; empty if the thread did not answer
};

/// Lets this process write down the stacks of its threads: each does so itself in a handler of SIGURG, which is ignored
/// by default, so that neither ptrace nor root is needed. @return false if the program handles that signal itself
bool prepare_for_stacks();

/// Returns the stacks of all threads of this process but the calling one; the first thread comes first. A thread that
/// blocks signals, or does not answer within 0.1 s, has no frames. Functions that the program does not export appear as
/// object and offset, which addr2line resolves. One thread calls it at a time. @pre prepare_for_stacks() was true
std::vector<ThreadStack> stacks_of_other_threads();

}  // namespace lockstep
