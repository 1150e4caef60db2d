// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Hooks by which a test controls the executor. They cost nothing here. tests/schedules compiles the executor again,
/// with a header of this name in front of this one, in which another rank may run at each `preempt`.
namespace lockstep::backends::seams {

/// Marks a moment between two steps at which any other rank may do any amount of work.
inline void preempt() {}
/// Whether a slot is opened again only when every rank of the node has left it.
inline constexpr bool keeps_slot_rule = true;
/// Number of bytes behind each slot that no rank may write.
inline constexpr std::int64_t guard_bytes = 0;
inline void raise_guard(std::byte* /*guard*/) {}
inline void check_guard(const std::byte* /*guard*/) {}

}  // namespace lockstep::backends::seams
