// SPDX-License-Identifier: Apache-2.0
#define LOCKSTEP_VECTOR_BYTES 32
#include "combine.hpp"

namespace lockstep::kernels {
extern const InstructionSet avx2;
constexpr InstructionSet avx2 = make_instruction_set("avx2");
}  // namespace lockstep::kernels
