// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::onednn {

/// Makes a kernel for any operator on an empty batch, for which oneDNN has no kernels. Gradients of parameters are
/// zero, and state is unchanged. The result has the first input's dtype.
std::unique_ptr<Kernel> make_empty_batch(std::span<const Format> inputs, const Signature& signature);

}  // namespace lockstep::ops::onednn
