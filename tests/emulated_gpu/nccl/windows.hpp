// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace emulated_gpu {

class Communicator;

/// Returns the number of windows that the communicators of this process have registered.
int count_windows();
/// Ends the windows of a communicator, as NCCL does when it is destroyed or aborted.
void forget_windows(const Communicator& communicator);

}  // namespace emulated_gpu
