// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

/// Whether every element is finite; integers always are. @pre the memory is host memory
[[nodiscard]] bool all_finite(const ConstBuffer& values);

}  // namespace lockstep::kernels
