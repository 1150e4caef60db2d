// SPDX-License-Identifier: Apache-2.0
#define LOCKSTEP_VECTOR_BYTES 16
#include "combine.hpp"

namespace lockstep::kernels {
extern const InstructionSet baseline;
constexpr InstructionSet baseline = make_instruction_set("baseline");
}  // namespace lockstep::kernels
