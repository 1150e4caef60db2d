// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/max_pool.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::kernels {

/// The types that have loops: all up to uint16. Booleans are reduced as bytes, complex numbers as their parts.
inline constexpr std::size_t dtypes = 10;
/// The operators that have loops: all but the average. Bitwise ones have them for bytes only, as bits have no type.
inline constexpr std::size_t reduce_ops = 10;

/// The kernels compiled for one instruction set. All instruction sets give the same bits. The kernels use raw pointers
/// and no inline functions of the library's or the standard library's headers: a linker keeps one copy of such a
/// function, which might use instructions that this processor lacks.
struct InstructionSet {
  struct Operands {
    void* const* outs;
    std::int64_t out_count;
    const void* const* ins;
    std::int64_t in_count;
    std::int64_t elements;
    bool streaming;  ///< stores bypass the cache
    bool prefetch;   ///< inputs are prefetched
  };
  using Combine = void (*)(const Operands& operands);
  /// The number of variants of `combine`: for two, three and four inputs, and for any number.
  static constexpr std::size_t arities = 4;

  const char* name;
  Combine combine[dtypes][reduce_ops][arities];  ///< null where there is no such operation
  Combine copy;                                  ///< one input; elements are bytes
  void (*widen_float16)(const std::uint16_t* from, float* to, std::int64_t count);
  void (*widen_bfloat16)(const std::uint16_t* from, float* to, std::int64_t count);
  void (*narrow_float16)(const float* from, std::uint16_t* to, std::int64_t count);
  void (*narrow_bfloat16)(const float* from, std::uint16_t* to, std::int64_t count);
  void (*round_float16)(const float* from, float* to, std::int64_t count);  ///< `from` may be `to`
  void (*round_bfloat16)(const float* from, float* to, std::int64_t count);
  decltype(&kernels::max_pool) max_pool;
  decltype(&kernels::max_pool_backward) max_pool_backward;
};

/// The instruction sets that this processor and its operating system support, weakest first: "scalar", "baseline"
/// (vectors of every processor of the architecture), "avx2", "avx512".
std::span<const InstructionSet* const> instruction_sets();
/// The last one of them, which is the strongest.
const InstructionSet& widest_instruction_set();

/// Names the instruction set that the loader selects for loops that are compiled for several
/// (`kernels/vectorized.hpp`). Results differ in their bits if sums are made in vectors of other lengths, or if
/// products are not rounded before they are added.
const char* instruction_set_of_loops();

/// Whether the processor multiplies bfloat16, by AVX512-BF16 or by tiles of AMX.
bool processor_has_bfloat16();
bool is_intel_processor();

/// Runs the public function of this name with a given instruction set. The elements of a copy are bytes.
void combine(const InstructionSet& set, const InstructionSet::Operands& operands, DType dtype, ReduceOp op);

}  // namespace lockstep::kernels
