// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

/// Linux calls for waiting across processes. (std::atomic::wait waits for threads of its own process only.)
namespace lockstep {

/// Sleeps while `word` is `expected`, until it is woken, a signal arrives, or `at_most` has passed.
/// @return false if the time has passed
bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most);

/// Wakes all threads of all processes that sleep on `word`.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// The processors that a barrier reaches: those that run this process, or those that run any registered process.
enum class BarrierReach { process, node };

/// Registers this process, so that barrier_on_every_processor() reaches it.
/// @return false if the kernel does not support it, or a sandbox forbids it
bool register_for_barriers(BarrierReach reach);

/// Executes a full memory barrier on every processor in reach, as if each processor executed one now.
///
/// With the reach `node`, kernels (seen on Linux 6.18) miss a processor on which a process ran before it registered and
/// which has only been idle since, because the kernel updates its record for a processor only when that switches
/// processes. A caller must therefore tolerate that a barrier is missing, with no other damage than the time until it
/// checks again.
/// @pre register_for_barriers() has succeeded in this process, with this reach
void barrier_on_every_processor(BarrierReach reach);

}  // namespace lockstep
