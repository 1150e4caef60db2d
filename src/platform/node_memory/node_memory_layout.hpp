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

/// How a rank left, if it left by itself.
enum class Departure : std::uint32_t {
  none,
  in_order,   ///< by close(); its process may end without counting as lost
  giving_up,  ///< the rank is writing its reason
  gave_up,    ///< after an error
  released,   ///< in order, and all others have left; the rank accesses nothing of the group any more
};

struct NodeMember {
  std::atomic<Departure> departure{Departure::none};
  std::uint32_t reason_length = 0;  ///< length of the reason for giving up, valid from Departure::gave_up on
  std::array<char, NodeMemory::longest_reason> reason{};
};
static_assert(std::atomic<Departure>::is_always_lock_free, "processes share these words");

/// The layout of a file: a greeting of each member, by which members check that they see the same file, then the heaps.
struct NodeLayout {
  int members = 1;
  Bytes heap;  ///< size of a member's heap, in whole huge pages

  [[nodiscard]] std::int64_t greetings() const { return members * static_cast<std::int64_t>(sizeof(std::uint64_t)); }
  [[nodiscard]] std::int64_t heap_of(int member) const {
    return rounded_up(greetings(), huge_page_bytes) + member * heap.value;
  }
  [[nodiscard]] Bytes file() const { return {heap_of(members)}; }
};

/// The layout of a group's common data, which precedes the control area of its rank 0: doorbell, alarm and members.
struct GroupHeader {
  static constexpr std::int64_t doorbell = 0;
  static constexpr std::int64_t alarm = sizeof(Doorbell);
  static constexpr std::int64_t members = alarm + static_cast<std::int64_t>(alignof(Doorbell));
  static Bytes bytes(int ranks) {
    return whole_pages({members + ranks * static_cast<std::int64_t>(sizeof(NodeMember))});
  }
};

/// The part that differs between ranks that are processes and ranks that are threads.
class NodeMemory::Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// @pre bytes > 0
  virtual Allocation allocate(Bytes bytes) = 0;
  /// Called when this rank has left in order and accesses nothing of the group any more.
  virtual void left_in_order() = 0;
  /// Whether a rank can die alone, so that the others have to check.
  [[nodiscard]] virtual bool has_mortal_ranks() const = 0;
  /// Whether the process of `peer`, another rank, is known to have ended.
  [[nodiscard]] virtual bool has_ended(int peer) const = 0;
};

}  // namespace lockstep
