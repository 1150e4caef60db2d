// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

#include "platform/node_memory/node_memory.hpp"

// A stress test of sleep and ring, which every rank runs, be it a process or a thread. A lost wake-up shows as a sleep
// that ends by its limit, which is longer than any scheduling delay.
namespace lockstep::testing_support {

inline constexpr Bytes wake_up_control{std::int64_t{4} << 12};
inline constexpr std::chrono::seconds sleep_limit{10};

/// Returns word `index` of a rank's control area, on its own cache line. @pre 0 ≤ index < 32
inline std::atomic<std::uint64_t>& control_word(const NodeMemory& memory, int rank, int index) {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory.control(rank) + index * 128);
}

inline void spin(std::uint64_t turns) {
  for (std::uint64_t i = 0; i < turns; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// Binds the calling thread to one of its processors during the scope.
class OnOneProcessor {
 public:
  explicit OnOneProcessor(int which) {
    sched_getaffinity(0, sizeof before_, &before_);
    const int wanted = which % CPU_COUNT(&before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0, passed = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &before_) && passed++ == wanted) CPU_SET(cpu, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;
  ~OnOneProcessor() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

/// Makes every processor switch from another rank's process to this one's, so that barriers include all of them; see
/// `barrier_on_every_processor`. All ranks call it at once, after they have registered.
inline void take_turns_on_every_processor() {
  constexpr int turns = 20;
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  for (int which = 0; which < CPU_COUNT(&all); ++which) {
    const OnOneProcessor here(which);
    for (int turn = 0; turn < turns; ++turn) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// Sleeps until the word has the value, and counts sleeps that ended by their limit. After the first such sleep it only
/// yields, so that a failing test ends soon.
inline void sleep_until(NodeMemory& memory, const std::atomic<std::uint64_t>& word, std::uint64_t value, int& limits) {
  while (word.load(std::memory_order_acquire) != value) {
    if (limits > 0) {
      std::this_thread::yield();
      continue;
    }
    memory.prepare_sleep();
    if (word.load(std::memory_order_acquire) == value) {
      memory.cancel_sleep();
    } else if (!memory.sleep(sleep_limit)) {
      ++limits;
    }
  }
}

/// Passes a token through all ranks in an order that all know, while the other ranks sleep.
/// @return the number of sleeps that ended by their limit
inline int pass_a_token(NodeMemory& memory, int rounds) {
  std::mt19937 order(7);  // the same on every rank
  std::mt19937 own(static_cast<unsigned>(memory.rank()));
  int limits = 0;
  int holder = 0;
  for (int round = 1; round <= rounds; ++round) {
    const int next = static_cast<int>(order() % static_cast<unsigned>(memory.size()));
    const auto value = static_cast<std::uint64_t>(round);
    if (memory.rank() == holder) {
      spin(own() % 500);
      control_word(memory, next, 0).store(value, std::memory_order_release);
      memory.ring();
    }
    if (memory.rank() == next) sleep_until(memory, control_word(memory, next, 0), value, limits);
    holder = next;
  }
  return limits;
}

/// Rank 0 writes and rings just when rank 1 goes to sleep. Before the word for which rank 1 waits, rank 0 writes lines
/// that are in rank 1's cache, so that the store before the ring takes long. Without a fence, the load in ring() would
/// overtake it.
inline int ring_while_falling_asleep(NodeMemory& memory, int rounds) {
  constexpr int cold_lines = 16;
  if (memory.rank() > 1 || memory.size() < 2) return 0;
  const OnOneProcessor apart(memory.rank());
  std::mt19937 random(static_cast<unsigned>(memory.rank()));
  std::atomic<std::uint64_t>& ready = control_word(memory, 0, 1);
  std::atomic<std::uint64_t>& flag = control_word(memory, 0, 2);
  const auto write_lines = [&memory](std::uint64_t value) {
    for (int i = 0; i < cold_lines; ++i) control_word(memory, 1, 3 + i).store(value, std::memory_order_relaxed);
  };
  int limits = 0;
  for (int round = 1; round <= rounds; ++round) {
    const auto value = static_cast<std::uint64_t>(round);
    if (memory.rank() == 1) {
      write_lines(0);
      ready.store(value, std::memory_order_release);
      spin(random() % 10'000);
      sleep_until(memory, flag, value, limits);
    } else {
      // Both must start at once, which is not possible if this rank sleeps.
      for (int i = 0; ready.load(std::memory_order_acquire) != value; ++i) {
        if (i > 5000) std::this_thread::yield();
      }
      spin(random() % 10'000);
      write_lines(value);
      flag.store(value, std::memory_order_release);
      memory.ring();
    }
  }
  return limits;
}

}  // namespace lockstep::testing_support
