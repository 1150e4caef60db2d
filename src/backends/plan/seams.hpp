// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Where a test takes hold of the executor. Here they cost nothing. tests/schedules compiles the executor once more,
/// with a header of this name before this one, in which another rank may go on at each `preempt`.
namespace lockstep::backends::seams {

/// A moment between two steps at which any other rank may do any amount of work.
inline void preempt() {}
/// Whether a slot is opened again only when every rank of the node has left it.
inline constexpr bool keeps_slot_rule = true;
/// Bytes behind each slot that nobody may write.
inline constexpr std::int64_t guard_bytes = 0;
inline void raise_guard(std::byte* /*guard*/) {}
inline void check_guard(const std::byte* /*guard*/) {}

}  // namespace lockstep::backends::seams
