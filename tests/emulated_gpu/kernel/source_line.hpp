// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

namespace emulated_gpu {

/// "canonical_fold.cu:23" for the call before this return address, by the program's debug information; the address
/// where there is none. Starts binutils' addr2line, so it is for a program's last words.
std::string source_line(const void* return_address);
std::string source_line(const std::source_location& place);

}  // namespace emulated_gpu
