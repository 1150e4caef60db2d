// SPDX-License-Identifier: Apache-2.0
#define LOCKSTEP_VECTOR_BYTES 0
#include "combine.hpp"

namespace lockstep::kernels {
extern const InstructionSet scalar;
constexpr InstructionSet scalar = make_instruction_set("scalar");
}  // namespace lockstep::kernels
