// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/types.hpp"
#include "platform/node_memory/futex.hpp"

namespace lockstep {

/// Where the ranks of a node wake each other: an event count. On lines of their own, since the first is read whenever a
/// flag is raised and the second is written only while somebody sleeps (two lines, because processors fetch pairs).
struct Doorbell {
  alignas(128) std::atomic<std::uint32_t> sleepers{0};
  alignas(128) std::atomic<std::uint32_t> rings{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share these words");

/// What each rank writes about itself for the others to read; defined in src/platform/node_memory_layout.hpp.
struct NodeMember;

/// A rank that left without taking leave.
struct LostPeer {
  int rank;
  bool gave_up;        ///< by give_up() or by destroying its NodeMemory without close(); else its process ended
  std::string reason;  ///< what it said when it gave up
  bool operator==(const LostPeer&) const = default;
};

/// Memory that the ranks of a node share, as one of them sees it. Ranks are processes or threads; who uses it need not
/// know which.
///
/// Each rank owns a control area, zeroed at the start, that every rank reads and writes, and a heap from which it alone
/// allocates and which every rank reads and writes. Both are mapped by all from the start, so that an allocation needs
/// no announcement. Nothing of it has a name in the file system, and nothing outlives the processes.
///
/// The control areas, the bell and the departures are of this group of ranks; the heaps are the node's, and of every
/// group that shares them: what was allocated through one of them can be located through all.
class NodeMemory {
 public:
  class Store;  ///< what lies behind it; defined in src/platform/node_memory_store.hpp

  /// Where everything lies in this rank's addresses.
  struct View {
    int rank = 0;
    int size = 1;
    std::vector<std::byte*> controls;  ///< by rank
    Bytes control_bytes;
    std::vector<std::uintptr_t> heaps;  ///< by rank
    std::uintptr_t own_heap = 0;
    std::uintptr_t own_heap_bytes = 0;
    Doorbell* doorbell = nullptr;
    NodeMember* members = nullptr;                ///< one for each rank
    std::atomic<std::uint32_t>* alarm = nullptr;  ///< 1 + the rank that gave up first; 0 while nobody has
    /// Of the fence that who goes to sleep pays for, so that who rings need not; none where who rings does.
    std::optional<BarrierReach> barrier{};
  };

  NodeMemory(View view, std::shared_ptr<Store> store);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;
  ~NodeMemory();

  /// Number of this rank within the node, and how many there are.
  [[nodiscard]] int rank() const { return view_.rank; }
  [[nodiscard]] int size() const { return view_.size; }

  /// The control area of `peer`, aligned to a page. @pre 0 ≤ peer < size(), not closed
  [[nodiscard]] std::byte* control(int peer) const { return view_.controls[static_cast<std::size_t>(peer)]; }
  /// Size of a control area: what was asked for, rounded up to whole pages.
  [[nodiscard]] Bytes control_bytes() const { return view_.control_bytes; }

  /// Where [data, data + bytes) lies, in a form that every rank of the node understands.
  /// @return nothing if it is not wholly in this rank's heap, so that other ranks cannot reach it
  [[nodiscard]] std::optional<std::uint64_t> locate(const void* data, Bytes bytes) const {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(data) - view_.own_heap;
    if (offset > view_.own_heap_bytes) return std::nullopt;
    if (static_cast<std::uintptr_t>(bytes.value) > view_.own_heap_bytes - offset) return std::nullopt;
    return offset;
  }
  /// The address here of what `peer` located. @pre `location` came from `peer`'s locate(), this memory is not closed
  [[nodiscard]] std::byte* at(int peer, std::uint64_t location) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): of threads, a location is an address
    return reinterpret_cast<std::byte*>(view_.heaps[static_cast<std::size_t>(peer)] + location);
  }

  /// Zeroed memory of this rank's heap, MemoryKind::shared, aligned to a page and from 2 MiB on to 2 MiB. In whole
  /// pages, all of them present when it returns: for few large buffers, outside of loops. Not collective; any thread.
  /// Released memory returns to the node and is used again; then peers must no longer use it. An allocation may outlive
  /// close() and this object.
  /// @throws Error{unsupported} that names size, rank, host and remedy if the heap or the node's memory does not
  ///         suffice (nobody is hit by a signal later); Error{invalid_argument} if `bytes` is negative, or after
  ///         close(); std::bad_alloc
  Allocation allocate(Bytes bytes);

  /// Waiting for what another rank will write. Who is about to sleep calls prepare_sleep(), looks once more whether it
  /// has come, and then calls either cancel_sleep() or sleep(). One thread of a rank at a time.
  void prepare_sleep();
  void cancel_sleep();
  /// Blocks until some rank rings, even if it did so since prepare_sleep(); may return earlier (a signal). Between
  /// processes a ring may be missed where `barrier_on_every_processor` misses a processor: then `at_most` is how long
  /// that goes unnoticed.
  /// @return false if `at_most` passed instead
  bool sleep(std::chrono::nanoseconds at_most);

  /// Wakes every sleeping rank of the node. To be called after every store that somebody may sleep for. As long as
  /// nobody sleeps it costs one load of a line that is seldom written; without membarrier(2) a locked instruction too.
  void ring() const {
    if (view_.barrier) {
      // The sleeper's membarrier orders the processor; the compiler must not move the caller's store past the load.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (view_.doorbell->sleepers.load(std::memory_order_relaxed) == 0) return;
    } else if (view_.doorbell->sleepers.fetch_add(0, std::memory_order_seq_cst) == 0) {
      return;
    }
    wake();
  }

  /// The rank, maybe this one, that was the first to give up; nothing while nobody has. One load of a word that is
  /// written once, so that it may be asked at every poll. @pre not closed
  [[nodiscard]] std::optional<LostPeer> given_up() const {
    const std::uint32_t by = view_.alarm->load(std::memory_order_acquire);
    if (by == 0) return std::nullopt;
    return departed(static_cast<int>(by) - 1);
  }

  /// Another rank of the node that will take part no more, although it did not close(): as given_up(), or one whose
  /// process has ended. System calls, one for each peer. Nothing where ranks are threads, none of which can die alone:
  /// given_up() tells of those too. @pre not closed
  [[nodiscard]] std::optional<LostPeer> lost_peer() const;

  /// Longest reason that give_up() passes on; what is longer is cut.
  static constexpr std::size_t longest_reason = 200;

  /// Tells the peers, and wakes those that sleep, that this rank will take part no more, and why. What it said first
  /// stays. The memory stays as it is. Does nothing after close(). Any thread, as long as none closes meanwhile.
  void give_up(std::string_view reason) noexcept;

  /// Takes leave: peers do not count this rank as lost from here on. The control area is used again when all ranks have
  /// closed; the node's memory is unmapped as soon as no group, allocation or MpiGroup of this process needs it.
  /// Not collective. Afterwards only rank(), size(), control_bytes(), locate() and close() may be called.
  void close();

 private:
  void wake() const noexcept;
  [[nodiscard]] LostPeer departed(int rank) const;

  View view_;
  std::shared_ptr<Store> store_;
  std::uint32_t rings_seen_ = 0;  // at prepare_sleep()
};

struct NodeMemoryOptions {
  Bytes control_bytes{0};  ///< of each rank; the same on every rank. It costs nothing until it is touched
  /// Address space for each heap, where memory is made and not shared with other groups; nothing means as much as the
  /// machine has memory, or the ranks have addresses. It costs nothing until it is allocated. Of no effect where ranks
  /// are threads. Rank 0's counts.
  std::optional<Bytes> heap_bytes;
  bool membarrier = true;                      ///< false: do without it, as on a machine that has none
  bool proc = true;                            ///< false: do without /proc, as where it hides other processes
  std::chrono::milliseconds deadline{10'000};  ///< for passing a descriptor to a peer
  /// What there is to say that is no error; called on rank 0 of the node.
  std::function<void(std::string_view)> notice;
};

/// Ranks that are threads of this process: one view for each. All memory of the process can be located.
/// @throws Error{invalid_argument} if `ranks` < 1; std::bad_alloc
std::vector<std::shared_ptr<NodeMemory>> make_node_memory_of_threads(int ranks, const NodeMemoryOptions& options);

}  // namespace lockstep
