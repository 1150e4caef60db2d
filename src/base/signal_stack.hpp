// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Gives this thread a stack for handlers of signals that ask for it (SA_ONSTACK), until the thread ends. Further calls
/// cost nothing.
///
/// A handler otherwise runs on the stack of the thread that it interrupts. Some of oneDNN's kernels of matrix products
/// keep other data in the stack pointer, which then points into the heap, and the kernel's frame for the handler would
/// overwrite what is there.
/// @source github.com/uxlfoundation/oneDNN, issue 4845, mended after version 3.11
void use_signal_stack();

/// Whether a thread has called use_signal_stack() and has not ended. @param thread  id of Linux
bool has_signal_stack(int thread);

}  // namespace lockstep
