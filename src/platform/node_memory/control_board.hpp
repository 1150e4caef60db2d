// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// A rank's control area of a channel's word, zero at the start. Only the rank itself asks on its board, and the first
/// half of the first line is that of the node's first rank for all.
struct ControlBoard {
  std::atomic<std::uint64_t> closing;    ///< who closed after the fewest operations, and after how many; else 0
  std::atomic<std::uint32_t> leaving;    ///< how many ranks of the node have left
  std::atomic<std::uint32_t> quiet;      ///< and of how many nothing is on its way any more
  std::atomic<std::uint32_t> questions;  ///< how often a rank of the node has asked

  std::atomic<std::uint32_t> version;  ///< of the question; odd while it is written
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> what;
  std::atomic<std::uint64_t> hash;

  void ask(const ControlChannel::Call& call) {
    const std::uint32_t before = version.load(std::memory_order_relaxed);
    version.store(before + 1, std::memory_order_relaxed);
    number.store(call.number, std::memory_order_release);  // whoever sees one of them sees the odd version too
    what.store(call.what, std::memory_order_release);
    hash.store(call.hash, std::memory_order_release);
    version.store(before + 2, std::memory_order_release);
  }

  /// @param seen  the version that was read last; becomes this one
  /// @return nothing where there is nothing new, or it is being written
  std::optional<ControlChannel::Call> read(std::uint32_t& seen) const {
    const std::uint32_t now = version.load(std::memory_order_acquire);
    if (now == seen || now % 2 != 0) return std::nullopt;
    const ControlChannel::Call call{number.load(std::memory_order_acquire), what.load(std::memory_order_acquire),
                                    hash.load(std::memory_order_acquire)};
    if (version.load(std::memory_order_relaxed) != now) return std::nullopt;
    seen = now;
    return call;
  }

  CallHistory calls;

  /// Whom the rank waits for, as it answers those of its node who inquire.
  static constexpr std::size_t most_awaited = 128;
  alignas(64) std::atomic<std::uint32_t> inquiries;  ///< how often others have inquired
  std::atomic<std::uint32_t> answer_version;         ///< odd while the answer is written
  std::atomic<std::uint32_t> answered;               ///< the number of inquiries that the answer is for
  std::atomic<std::uint32_t> is_busy;
  std::atomic<std::uint32_t> awaited_ranks;
  std::array<std::atomic<std::int32_t>, most_awaited> awaited;

  void answer(const ControlChannel::Standing& standing, std::uint32_t inquiry) {
    const std::uint32_t before = answer_version.load(std::memory_order_relaxed);
    answer_version.store(before + 1, std::memory_order_relaxed);
    const std::size_t ranks = std::min(standing.awaited.size(), most_awaited);
    for (std::size_t i = 0; i < ranks; ++i) awaited[i].store(standing.awaited[i], std::memory_order_release);
    awaited_ranks.store(static_cast<std::uint32_t>(ranks), std::memory_order_release);
    is_busy.store(standing.is_busy ? 1 : 0, std::memory_order_release);
    answered.store(inquiry, std::memory_order_release);
    answer_version.store(before + 2, std::memory_order_release);
  }
  /// The answer to an inquiry of this number or a later one; nothing if there is none yet, or it is being written.
  [[nodiscard]] std::optional<ControlChannel::Standing> read_answer(std::uint32_t inquiry) const {
    const std::uint32_t now = answer_version.load(std::memory_order_acquire);
    const auto is_earlier = static_cast<std::int32_t>(answered.load(std::memory_order_acquire) - inquiry) < 0;
    if (now % 2 != 0 || is_earlier) return std::nullopt;
    ControlChannel::Standing standing;
    standing.is_busy = is_busy.load(std::memory_order_acquire) != 0;
    const std::size_t ranks = std::min<std::size_t>(awaited_ranks.load(std::memory_order_acquire), most_awaited);
    for (std::size_t i = 0; i < ranks; ++i) standing.awaited.push_back(awaited[i].load(std::memory_order_acquire));
    if (answer_version.load(std::memory_order_relaxed) != now) return std::nullopt;
    return standing;
  }
};
static_assert(sizeof(ControlBoard) <= ControlChannel::control_bytes.value);

}  // namespace lockstep
