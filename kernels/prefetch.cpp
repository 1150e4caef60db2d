// SPDX-License-Identifier: Apache-2.0
#include "kernels/prefetch.hpp"

namespace lockstep::kernels {

// The target attribute enables the instruction; otherwise compilers emit one that prefetches for reading. It is a no-op
// on x86 processors that do not have it.
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void prefetch_for_writing(const std::byte* begin, Bytes bytes) {
  constexpr std::int64_t line = 64;
  for (std::int64_t at = 0; at < bytes.value; at += line) __builtin_prefetch(begin + at, 1);
}

}  // namespace lockstep::kernels
