// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep {

/// The last calls of a rank, each of two words whose meaning is known to who compares them. In memory that is zero at
/// the start; one rank writes, and any rank of its node reads at any time.
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
    next.what.store(call.what, std::memory_order_release);  // whoever sees it sees the count before it, too
    next.hash.store(call.hash, std::memory_order_release);
    count_.store(number + 1, std::memory_order_release);
  }
  /// How many calls there have been.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }
  /// The call of a number, from 0; nothing if it is not made yet, or is forgotten.
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
