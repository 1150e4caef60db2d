// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/futex.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace lockstep {
namespace {

// FUTEX_PRIVATE_FLAG is not set, because it would limit a wake-up to one process.
long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most) {
  const auto nanoseconds = std::max<std::chrono::nanoseconds::rep>(at_most.count(), 0);
  const timespec timeout{.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000),
                         .tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000)};
  return futex(word, FUTEX_WAIT, expected, &timeout) == 0 || errno != ETIMEDOUT;
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) { futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

bool register_for_barriers(BarrierReach reach) {
  const int command = reach == BarrierReach::process ? MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
                                                     : MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

void barrier_on_every_processor(BarrierReach reach) {
  syscall(SYS_membarrier,
          reach == BarrierReach::process ? MEMBARRIER_CMD_PRIVATE_EXPEDITED : MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace lockstep
