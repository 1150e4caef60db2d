// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// A rank's control area of a channel's word, zero at the start. Only the rank itself asks on its board, and the first
/// half is that of the node's first rank for all.
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
};
static_assert(sizeof(ControlBoard) <= ControlChannel::control_bytes.value);

}  // namespace lockstep
