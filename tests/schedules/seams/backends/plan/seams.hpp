// SPDX-License-Identifier: Apache-2.0
#pragma once

// Replaces src/backends/plan/seams.hpp in tests of schedules.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace lockstep::backends::seams {

/// Called between two steps; the scheduler sets it while it runs.
inline void (*on_preempt)() = nullptr;
inline void preempt() {
  if (on_preempt != nullptr) on_preempt();
}

/// The test that shows the purpose of the rule sets it to false.
inline bool keeps_slot_rule = true;

inline constexpr std::int64_t guard_bytes = 64;
inline constexpr std::byte guard_value{0x5a};
inline void raise_guard(std::byte* guard) { std::fill_n(guard, guard_bytes, guard_value); }
inline void check_guard(const std::byte* guard) {
  if (std::any_of(guard, guard + guard_bytes, [](std::byte b) { return b != guard_value; }))
    throw std::logic_error("memory behind a slot has been written");
}

}  // namespace lockstep::backends::seams
