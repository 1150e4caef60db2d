// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

/// Linux calls for waiting across processes. (std::atomic::wait waits for threads of its own process only.)
namespace lockstep {

/// Sleeps while `word` is `expected`, until it is woken, a signal comes, or `at_most` has passed.
/// @return false if the time has passed
bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most);

/// Wakes all threads of all processes that sleep on `word`.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// Makes this process one of those that barrier_on_every_processor() reaches.
/// @return false where the kernel does not offer it, or a sandbox forbids it
bool register_for_barriers();

/// A full memory barrier on every processor that runs a registered process, as if each had executed one now.
/// @pre register_for_barriers() has succeeded in this process
void barrier_on_every_processor();

}  // namespace lockstep
