// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::ops::onednn {

/// The version of the oneDNN library that this process runs with: "oneDNN 2 6 3".
std::string library_version();
/// The instruction set up to which oneDNN makes its kernels, which the processor and ONEDNN_MAX_CPU_ISA limit.
std::string library_instruction_set();

}  // namespace lockstep::ops::onednn
