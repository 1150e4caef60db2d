// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

// Every kernel runs on the calling thread, in vectors of the widest instruction set that the processor has. All
// instruction sets give the same bits. Buffers need no alignment. Integers wrap around. Operators and types fit each
// other as ReduceOp says. For min and max, a NaN on either side gives a NaN, and zeros of either sign are equal.
// float16 and bfloat16 are computed in float32 and rounded to nearest, ties to even, once per call; their NaNs become
// quiet.

/// Where most of the operands are: in some cache, or in memory because they are larger than the caches. In memory,
/// inputs are prefetched, and outputs that are not among the inputs are written past the cache.
enum class Residence { cache, memory };

/// outs[k][i] = ins[0][i] ⊕ ins[1][i] ⊕ …, reduced from left to right, for every k and i < count; overwrites. With one
/// input it is a copy, bit for bit, NaNs included. Each of `outs` may be any of `ins`; no other overlap. Allocates
/// nothing.
/// @pre   neither list is empty
/// @cost  each input is read once, each output written once
void combine(std::span<void* const> outs, std::span<const void* const> ins, Count count, DType dtype, ReduceOp op,
             Residence residence = Residence::cache);

/// out[i] = a[i] ⊕ b[i], element by element; `out` may be `a` or `b`, no other overlap.
/// @cost  3 memory streams: n bytes read twice, written once
void reduce(void* out, const void* a, const void* b, Count count, DType dtype, ReduceOp op);

/// Overwrites `out` with x such that x ⊕ y = y for every y, bit for bit (−0 for floating-point sums); for logical
/// operators, y is 0 or 1.
void fill_neutral(void* out, Count count, DType dtype, ReduceOp op);

/// numbers[i] = numbers[i] / divisor; integers are divided as in C++, 16-bit formats in float32 with one rounding.
/// @pre divisor > 0; the memory is host memory; no booleans
void divide(const Buffer& numbers, int divisor);

/// Prefetches the cache lines of [begin, begin + bytes) for writing, without waiting: a store to a line that another
/// core has read must first take it from there. It has no effect other than on time.
void prefetch_for_writing(const std::byte* begin, Bytes bytes);

}  // namespace lockstep::kernels
