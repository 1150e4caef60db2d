// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/base/types.hpp"

namespace lockstep::kernels {

/// Asks for the cache lines of [begin, begin + bytes) as who is about to write them, without waiting for them: a store
/// to a line that another core has read must first take it from there. Changes nothing but time.
void prefetch_for_writing(const std::byte* begin, Bytes bytes);

}  // namespace lockstep::kernels
