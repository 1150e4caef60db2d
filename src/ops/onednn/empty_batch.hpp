// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::onednn {

/// Any operator on no samples, which oneDNN has no kernels for: gradients of parameters are zero, state stays. The
/// result is of the first input's dtype.
std::unique_ptr<Kernel> make_empty_batch(std::span<const Format> inputs, const Signature& signature);

}  // namespace lockstep::ops::onednn
