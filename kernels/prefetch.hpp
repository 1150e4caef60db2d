// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/base/types.hpp"

namespace lockstep::kernels {

/// Prefetches the cache lines of [begin, begin + bytes) for writing, without waiting: a store to a line that another
/// core has read must first take it from there. It has no effect other than on time.
void prefetch_for_writing(const std::byte* begin, Bytes bytes);

}  // namespace lockstep::kernels
