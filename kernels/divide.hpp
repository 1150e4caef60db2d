// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

/// values[i] = values[i] / divisor; integers are divided as in C++, 16-bit formats in float32 with one rounding.
/// @pre divisor > 0; the memory is host memory
void divide(const Buffer& values, int divisor);

}  // namespace lockstep::kernels
