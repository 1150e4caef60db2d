// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace emulated_gpu {

/// The program under test did what a real GPU might let pass, now and then. Ends the process, with this sentence, the
/// seed that repeats the run and the host's stack on stderr, and exit status `violation_status`.
[[noreturn]] void violation(const std::string& what);

constexpr int violation_status = 86;

}  // namespace emulated_gpu
