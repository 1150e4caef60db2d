// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "emulated_gpu/device/random.hpp"
#include "emulated_gpu/kernel/conflicts.hpp"
#include "emulated_gpu/kernel/grid.hpp"
#include "emulated_gpu/kernel/running.hpp"
#include "emulated_gpu/kernel/shared_memory.hpp"

namespace emulated_gpu {

/// The values of the lanes of a warp, by lane.
using LaneValues = std::array<std::uint64_t, lanes_of_warp>;

/// Runs blocks, one at a time and each to its end. The order of its threads is drawn again after each barrier: warps
/// are in any order, and their lanes in order, backwards, or mixed. Used under the device's lock.
class Multiprocessor {
 public:
  static Multiprocessor& instance();

  void run(const KernelCall& call, uint3 block, Random& random);

  // The following functions are for the running thread of the kernel.

  void begin_kernel() { running = &now_; }
  /// Waits for all threads of the block. @return the number of threads whose predicate is true
  unsigned wait_for_block(bool predicate, const char* function, const std::source_location& place);
  /// Waits for the lanes of the mask that the block has, and gives each the values of all. @param orders  whether
  /// memory accesses before it are ordered before those after it
  const LaneValues& wait_for_lanes(unsigned mask, std::uint64_t value, bool orders, const char* function,
                                   const std::source_location& place);
  /// Lets other threads go first at times.
  void may_be_overtaken();
  /// Returns which lanes of the running thread's warp the block has.
  [[nodiscard]] unsigned lanes_of_its_warp() const;
  SharedMemory& shared() { return shared_; }
  Conflicts& conflicts() { return conflicts_; }

  /// Ends the process. @param line  the source line
  [[noreturn]] void violate(const std::string& what, const std::string& line) const;
  /// Returns a text such as "(17, 0, 0)".
  [[nodiscard]] std::string index_of(unsigned thread) const;

 private:
  enum class Wait : std::uint8_t { nothing, block, lanes };
  struct Thread;
  /// A stack on which threads run one after the other; a thread that waits keeps it.
  struct Worker {
    boost::context::fiber fiber;   // where the worker continues
    boost::context::fiber caller;  // where the multiprocessor continues
    Thread* thread = nullptr;      // the thread that it runs
    std::uintptr_t stack = 0;
    std::size_t stack_bytes = 0;
  };
  struct Thread {
    unsigned number = 0;
    Worker* worker = nullptr;  // null: it has not begun, or is done
    bool is_done = false;
    Wait waits = Wait::nothing;
    bool predicate = false;
    bool orders = false;
    unsigned mask = 0;
    std::uint64_t value = 0;
    const char* function = "";  // the function in which it waits
    std::source_location place;
  };

  Multiprocessor() = default;
  void begin_block(const KernelCall& call, uint3 block);
  void line_up();
  template <typename Iterator>
  void shuffle(Iterator begin, Iterator end);
  std::unique_ptr<Worker> new_worker();
  // It is not inlined, because a worker may be on another host thread when it returns here, with other thread-local
  // variables.
  [[gnu::noinline]] void run_threads(Worker& worker);
  void switch_to(Thread& thread, Worker& worker);
  void resume_next();
  void park();
  void release_block();
  bool release_lanes(const Thread& last);
  [[noreturn]] void explain_why_stuck();
  [[noreturn]] void explain_missing_lane(const Thread& waiting);
  [[noreturn]] void explain_divergence(const Thread& waiting);
  static std::string describe_wait(const Thread& thread);
  [[nodiscard]] static bool is_at_barrier(const Thread& thread, const Thread& other);

  const KernelCall* call_ = nullptr;
  Random* random_ = nullptr;
  unsigned count_ = 0;  // number of threads of the block
  unsigned done_ = 0;
  unsigned predicates_ = 0;
  Running now_;
  std::vector<Thread> threads_;
  std::vector<LaneValues> values_;  // by thread
  std::vector<uint3> indices_;      // by thread, for blocks of this extent
  std::vector<unsigned> warps_;     // in the order that was drawn last
  std::vector<Thread*> runnable_;   // the last one is next
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  SharedMemory shared_;
  Conflicts conflicts_;
};

}  // namespace emulated_gpu
