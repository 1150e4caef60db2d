// SPDX-License-Identifier: Apache-2.0
#define LOCKSTEP_VECTOR_BYTES 64
#include "combine.hpp"

namespace lockstep::kernels {
extern const InstructionSet avx512;
constexpr InstructionSet avx512 = make_instruction_set("avx512");
}  // namespace lockstep::kernels
