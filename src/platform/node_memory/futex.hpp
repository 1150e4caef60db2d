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

/// Whose processors a barrier reaches: those that run this process, or those that run any process that has registered.
enum class BarrierReach { process, node };

/// Makes this process one of those that barrier_on_every_processor() reaches.
/// @return false where the kernel does not offer it, or a sandbox forbids it
bool register_for_barriers(BarrierReach reach);

/// A full memory barrier on every processor that it reaches, as if each had executed one now.
///
/// Of the reach `node`, kernels (seen on Linux 6.18) leave out a processor on which a process ran before it registered
/// and nothing but idleness has since: what that processor is noted for is renewed only when it changes processes. So
/// whoever relies on this must come to no harm, but for the time it takes to look again, where it is missing.
/// @pre register_for_barriers() has succeeded in this process, with this reach
void barrier_on_every_processor(BarrierReach reach);

}  // namespace lockstep
