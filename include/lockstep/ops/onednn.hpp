// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// Makes the oneDNN library: float32, with activations in the blocked formats that its kernels prefer.
///
/// Make it on the thread that will use it: OpenMP keeps the number of threads per calling thread. The same number of
/// threads gives the same bits; another number adds weight gradients and batch-norm statistics in another order.
/// @param threads  OpenMP threads of this rank
/// @param exact    disables Winograd's convolutions, which are faster and round more
/// @throws Error{invalid_argument} if `threads` < 1
std::unique_ptr<Ops> make_onednn_ops(int threads, bool exact = false);

}  // namespace lockstep::ops
