// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

/// Whether every element is a finite number, as every integer is. @pre the memory is the host's
[[nodiscard]] bool all_finite(const ConstBuffer& values);

}  // namespace lockstep::kernels
