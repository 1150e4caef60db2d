// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace emulated_gpu {

/// Reports that the program did something that a real GPU might tolerate at times. Ends the process with exit status
/// `violation_status` after writing this message, the seed that repeats the run, and the host's stack to stderr.
[[noreturn]] void violation(const std::string& what);

constexpr int violation_status = 86;

}  // namespace emulated_gpu
