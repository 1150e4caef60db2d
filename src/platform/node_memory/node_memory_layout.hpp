// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "lockstep/base/types.hpp"
#include "platform/node_memory/mapping.hpp"
#include "platform/node_memory/node_memory.hpp"

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
  released,   ///< in order, and knows that all others left: looks at nothing of the group's any more
};

struct NodeMember {
  std::atomic<Departure> departure{Departure::none};
  std::uint32_t reason_length = 0;  ///< of the reason why it gave up, valid from Departure::gave_up on
  std::array<char, NodeMemory::longest_reason> reason{};
};
static_assert(std::atomic<Departure>::is_always_lock_free, "processes share these words");

/// A file: by which its members greet each other, and their heaps.
struct NodeLayout {
  int members = 1;
  Bytes heap;  ///< of a member, in whole huge pages

  [[nodiscard]] std::int64_t greetings() const { return members * static_cast<std::int64_t>(sizeof(std::uint64_t)); }
  [[nodiscard]] std::int64_t heap_of(int member) const {
    return rounded_up(greetings(), huge_page_bytes) + member * heap.value;
  }
  [[nodiscard]] Bytes file() const { return {heap_of(members)}; }
};

/// What a group has in common, before the control area of its rank 0: the doorbell, the alarm, the ranks.
struct GroupHeader {
  static constexpr std::int64_t doorbell = 0;
  static constexpr std::int64_t alarm = sizeof(Doorbell);
  static constexpr std::int64_t members = alarm + static_cast<std::int64_t>(alignof(Doorbell));
  static Bytes bytes(int ranks) {
    return whole_pages({members + ranks * static_cast<std::int64_t>(sizeof(NodeMember))});
  }
};

/// What differs between ranks that are processes and ranks that are threads.
class NodeMemory::Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// @pre bytes > 0
  virtual Allocation allocate(Bytes bytes) = 0;
  /// This rank has left in order and reaches into nothing of the group's any more.
  virtual void left_in_order() = 0;
  /// Whether a rank can go alone, so that the others have to look.
  [[nodiscard]] virtual bool has_mortal_ranks() const = 0;
  /// Whether the process of `peer`, another rank, is known to have ended.
  [[nodiscard]] virtual bool has_ended(int peer) const = 0;
};

}  // namespace lockstep
