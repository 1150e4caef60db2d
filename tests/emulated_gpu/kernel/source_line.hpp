// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

namespace emulated_gpu {

/// Returns "canonical_fold.cu:23" for the call before this return address, from the program's debug information; the
/// address if there is none. It runs binutils' addr2line, so it is only for a program's last message.
std::string source_line(const void* return_address);
std::string source_line(const std::source_location& place);

}  // namespace emulated_gpu
