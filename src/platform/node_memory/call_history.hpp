// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep {

/// The last calls of a rank, with two words for each, whose meaning is defined by the code that compares them. It lies
/// in memory that is zero at the start. One rank writes it, and any rank of its node may read it at any time.
class CallHistory {
 public:
  struct Call {
    std::uint64_t what = 0;
    std::uint64_t hash = 0;
  };
  static constexpr std::uint64_t remembered = 256;

  void note(const Call& call) {
    const std::uint64_t number = count_.load(std::memory_order_relaxed);
    Entry& next = entries_[number % remembered];
    next.what.store(call.what, std::memory_order_release);  // a reader that sees it also sees the count before it
    next.hash.store(call.hash, std::memory_order_release);
    count_.store(number + 1, std::memory_order_release);
  }
  /// The number of calls so far.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }
  /// The call with this number, counted from 0; empty if it has not been made yet, or is no longer kept.
  [[nodiscard]] std::optional<Call> at(std::uint64_t number) const {
    if (number >= count()) return std::nullopt;
    const Entry& entry = entries_[number % remembered];
    const Call call{entry.what.load(std::memory_order_acquire), entry.hash.load(std::memory_order_acquire)};
    if (number + remembered <= count_.load(std::memory_order_relaxed)) return std::nullopt;  // maybe overwritten
    return call;
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> what;
    std::atomic<std::uint64_t> hash;
  };
  alignas(64) std::atomic<std::uint64_t> count_;
  alignas(64) std::array<Entry, remembered> entries_;
};

}  // namespace lockstep
