// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "lockstep/base/types.hpp"
#include "lockstep/platform/node_memory.hpp"
#include "platform/mapping.hpp"

namespace lockstep {

inline std::int64_t page_bytes() { return sysconf(_SC_PAGESIZE); }

constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

/// `bytes` rounded up to whole pages, at least one.
inline Bytes whole_pages(Bytes bytes) {
  return {bytes.value < 1 ? page_bytes() : rounded_up(bytes.value, page_bytes())};
}

/// How a rank left, if it did so by itself.
enum class Departure : std::uint32_t {
  none,
  in_order,   ///< by close(): it may end now without being dead
  giving_up,  ///< is writing down why
  gave_up,    ///< after an error
};

struct NodeMember {
  std::atomic<std::uint64_t> greeting{0};  ///< the nonce of this memory, once the rank is in it
  std::atomic<Departure> departure{Departure::none};
  std::uint32_t reason_length = 0;  ///< of the reason why it gave up, valid from Departure::gave_up on
  std::array<char, NodeMemory::longest_reason> reason{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share these words");

/// One file for all ranks: the doorbell, the alarm, members, control areas, heaps.
struct NodeLayout {
  int ranks = 1;
  Bytes control;  ///< of a rank, in whole pages
  Bytes heap;     ///< of a rank, in whole huge pages

  static constexpr std::int64_t doorbell = 0;
  static constexpr std::int64_t alarm = sizeof(Doorbell);
  static constexpr std::int64_t members = alarm + static_cast<std::int64_t>(alignof(Doorbell));
  [[nodiscard]] std::int64_t controls() const {
    return rounded_up(members + ranks * static_cast<std::int64_t>(sizeof(NodeMember)), page_bytes());
  }
  [[nodiscard]] std::int64_t control_of(int rank) const { return controls() + rank * control.value; }
  [[nodiscard]] std::int64_t heaps() const { return rounded_up(control_of(ranks), huge_page_bytes); }
  [[nodiscard]] std::int64_t heap_of(int rank) const { return heaps() + rank * heap.value; }
  [[nodiscard]] Bytes file() const { return {heap_of(ranks)}; }
};

}  // namespace lockstep
