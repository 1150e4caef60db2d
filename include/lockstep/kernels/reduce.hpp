#pragma once

#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

/// out[i] = a[i] ⊕ b[i], element by element on the calling thread; `out` may be `a` or `b`, no other overlap.
/// Integers wrap round; a NaN on either side of min and max gives NaN, and zeros of either sign are equal there.
/// @cost  3 memory streams: n bytes read twice, written once
void reduce(void* out, const void* a, const void* b, Count count, DType dtype, ReduceOp op);

/// Overwrites `out` with x such that x ⊕ y = y for every y, bit for bit (−0 for floating-point sums).
void fill_neutral(void* out, Count count, DType dtype, ReduceOp op);

}  // namespace lockstep::kernels
