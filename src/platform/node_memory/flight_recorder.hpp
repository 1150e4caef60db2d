// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

/// A short text that one thread writes and others read at any time. It lies in memory that is zero at the start. Longer
/// texts are cut.
class SharedText {
 public:
  static constexpr std::size_t longest = 48;
  void store(std::string_view text) noexcept;
  /// Returns the text; empty while it is being written.
  [[nodiscard]] std::string load() const;

 private:
  std::atomic<std::uint32_t> version_;  // odd while the text is written
  std::array<std::atomic<std::uint64_t>, longest / sizeof(std::uint64_t)> words_;
};

/// What a rank does, and its last operations. It lies in memory that is zero at the start and that the ranks of a node
/// share, so that others can read it even when its rank is stopped or dead. One thread of the rank at a time
/// records operations, and one records tasks and steps; any thread of the node may read it at any time.
class FlightRecorder {
 public:
  static constexpr std::uint64_t remembered = 256;  ///< number of operations that are kept

  struct Operation {
    std::uint64_t number = 0;  ///< running number over all communicators of the rank, from 0
    CollectiveKind kind = CollectiveKind::barrier;
    std::string label;
    Bytes bytes;
    std::int64_t step = 0;  ///< training step in which it was submitted, from 1; 0: outside of training
    bool is_pending = false;
    Clock::time_point submitted;
  };

  /// Records an operation that is submitted now. @return its number, for `end`
  /// @cost one reading of the clock, and some 15 stores to memory that is usually in cache
  std::uint64_t begin(CollectiveKind kind, std::string_view label, Bytes bytes) noexcept;
  /// Records that an operation has ended successfully.
  void end(std::uint64_t number) noexcept;
  /// Sets the training step, from 1; 0: outside of training.
  void set_step(std::int64_t step) noexcept;
  /// Sets what the rank is doing: "loading the data set mnist". Empty: nothing that lockstep knows of.
  void set_task(std::string_view task) noexcept;
  /// Records that the rank polls its operations.
  void note_poll() noexcept { polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// Records the process of the rank, which readers look up.
  void set_process(int pid) noexcept { process_.store(pid, std::memory_order_relaxed); }

  /// Returns how often the rank has begun or ended an operation, a task or a step.
  [[nodiscard]] std::uint64_t advances() const { return advances_.load(std::memory_order_relaxed); }
  /// Returns how many operations it has begun or ended.
  [[nodiscard]] std::uint64_t operation_advances() const { return operation_advances_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t polls() const { return polls_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::string task() const { return task_.load(); }
  [[nodiscard]] int process() const { return process_.load(std::memory_order_relaxed); }
  /// Returns the operations that are kept, oldest first.
  [[nodiscard]] std::vector<Operation> operations() const;

 private:
  struct Entry {
    std::atomic<std::uint64_t> number_plus_one;  // 0 while the entry is written
    std::atomic<std::int64_t> submitted;         // nanoseconds on the steady clock, which the processes of a host share
    std::atomic<std::int64_t> bytes;
    std::atomic<std::int64_t> step;
    std::atomic<std::uint32_t> kind;
    std::atomic<std::uint32_t> has_ended;
    SharedText label;
  };

  [[nodiscard]] std::optional<Operation> read(std::uint64_t number) const;
  static void increment(std::atomic<std::uint64_t>& number) noexcept;

  std::atomic<std::int32_t> process_;
  std::atomic<std::uint64_t> polls_;
  std::atomic<std::uint64_t> advances_;
  std::atomic<std::uint64_t> operation_advances_;
  std::atomic<std::int64_t> step_;
  SharedText task_;
  std::atomic<std::uint64_t> count_;
  std::array<Entry, remembered> entries_;
};

}  // namespace lockstep
