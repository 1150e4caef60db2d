// SPDX-License-Identifier: Apache-2.0
#include "kernels/prefetch.hpp"

namespace lockstep::kernels {

// The instruction has to be allowed by name, or compilers take one that fetches for reading. It does nothing on the x86
// processors that do not have it.
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void prefetch_for_writing(const std::byte* begin, Bytes bytes) {
  constexpr std::int64_t line = 64;
  for (std::int64_t at = 0; at < bytes.value; at += line) __builtin_prefetch(begin + at, 1);
}

}  // namespace lockstep::kernels
