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

namespace lockstep {

// Linux calls for waiting across processes. (std::atomic::wait waits for threads of its own process only.)

/// Sleeps while `word` is `expected`, until it is woken, a signal arrives, or `at_most` has passed.
/// @return false if the time has passed
bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most);

/// Wakes all threads of all processes that sleep on `word`.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// The processors that a barrier reaches: those that run this process, or those that run any registered process.
enum class BarrierReach { process, node };

/// Registers this process, so that barrier_on_every_processor() reaches it.
/// @return false if the kernel does not support it, or a sandbox forbids it
bool register_for_barriers(BarrierReach reach);

/// Executes a full memory barrier on every processor in reach, as if each processor executed one now.
///
/// With the reach `node`, kernels (seen on Linux 6.18) miss a processor on which a process ran before it registered and
/// which has only been idle since, because the kernel updates its record for a processor only when that switches
/// processes. A caller must therefore tolerate that a barrier is missing, with no other damage than the time until it
/// checks again.
/// @pre register_for_barriers() has succeeded in this process, with this reach
void barrier_on_every_processor(BarrierReach reach);

/// The words with which ranks of a node wake each other: an event count. Each has its own cache lines, because the
/// first is read whenever a flag is raised, and the second is written only while a rank sleeps. 128 bytes are two
/// lines, because processors fetch pairs.
struct Doorbell {
  alignas(128) std::atomic<std::uint32_t> sleepers{0};
  alignas(128) std::atomic<std::uint32_t> rings{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share these words");

/// The state that each rank publishes to the others; defined in src/platform/node_memory/node_memory_layout.hpp.
struct NodeMember;

/// A rank that left without close().
struct LostPeer {
  int rank;
  bool gave_up;        ///< by give_up(), or by destroying its NodeMemory without close(); false: its process ended
  std::string reason;  ///< the reason that it passed to give_up()
  bool operator==(const LostPeer&) const = default;
};

/// Memory that the ranks of a node share, as seen by one of them. Ranks are processes or threads; users of this class
/// need not know which.
///
/// Each rank owns a control area and a heap, which every rank reads and writes. The control area is zero at the start.
/// Only the owner allocates from a heap. All ranks map both from the start, so an allocation needs no announcement.
/// Nothing has a name in the file system, and nothing outlives the processes.
///
/// The control areas, the doorbell and the departures belong to this group of ranks. The heaps belong to the node and
/// to all groups that share them: memory that was allocated through one group can be located through all.
class NodeMemory {
 public:
  class Store;  ///< manages the memory; defined in src/platform/node_memory/node_memory_layout.hpp

  /// The addresses of all parts in this rank's address space.
  struct View {
    int rank = 0;
    int size = 1;
    std::vector<std::byte*> controls;  ///< control area of each rank
    Bytes control_bytes;
    std::vector<std::uintptr_t> heaps;  ///< heap of each rank
    std::uintptr_t own_heap = 0;
    std::uintptr_t own_heap_bytes = 0;
    Doorbell* doorbell = nullptr;
    NodeMember* members = nullptr;                ///< one for each rank
    std::atomic<std::uint32_t>* alarm = nullptr;  ///< 1 + the rank that gave up first; 0: none has
    /// Scope of the membarrier executed by the sleeping side (asymmetric fence). Empty if the waker fences instead.
    std::optional<BarrierReach> barrier{};
  };

  NodeMemory(View view, std::shared_ptr<Store> store);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;
  ~NodeMemory();

  /// This rank's number within the node, and the number of ranks.
  [[nodiscard]] int rank() const { return view_.rank; }
  [[nodiscard]] int size() const { return view_.size; }

  /// The control area of `peer`, aligned to a page. @pre 0 ≤ peer < size(), not closed
  [[nodiscard]] std::byte* control(int peer) const { return view_.controls[static_cast<std::size_t>(peer)]; }
  /// Size of a control area: the requested size, rounded up to whole pages.
  [[nodiscard]] Bytes control_bytes() const { return view_.control_bytes; }

  /// Returns the location of [data, data + bytes) in a form that every rank of the node understands.
  /// @return nothing if it is not completely in this rank's heap, so that other ranks cannot reach it
  [[nodiscard]] std::optional<std::uint64_t> locate(const void* data, Bytes bytes) const {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(data) - view_.own_heap;
    if (offset > view_.own_heap_bytes) return std::nullopt;
    if (static_cast<std::uintptr_t>(bytes.value) > view_.own_heap_bytes - offset) return std::nullopt;
    return offset;
  }
  /// Returns the address of memory that `peer` located. @pre `location` came from `peer`'s locate(), and this is not
  /// closed
  [[nodiscard]] std::byte* at(int peer, std::uint64_t location) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): between threads, a location is an address
    return reinterpret_cast<std::byte*>(view_.heaps[static_cast<std::size_t>(peer)] + location);
  }

  /// Allocates zeroed memory from this rank's heap, of MemoryKind::shared, aligned to a page and from 2 MiB on to 2
  /// MiB. It consists of whole pages, all of which are present on return; use it for few large buffers, outside of
  /// loops. Not collective; any thread may call it. Released memory returns to the node and is reused, so peers must
  /// not use it any more. An allocation may outlive close() and this object.
  /// @throws Error{unsupported} that names size, rank, host and remedy if the heap or the node's memory does not
  ///         suffice (so that no rank gets a SIGBUS later); Error{invalid_argument} if `bytes` is negative, or after
  ///         close(); std::bad_alloc
  Allocation allocate(Bytes bytes);

  /// Waiting for a value that another rank will write: the rank calls prepare_sleep(), checks once more whether the
  /// value has arrived, and then calls either cancel_sleep() or sleep(). One thread of a rank at a time may do this.
  void prepare_sleep();
  void cancel_sleep();
  /// Blocks until a rank rings, also if it has rung since prepare_sleep(); may return earlier (a signal). Between
  /// processes, a ring may be missed if `barrier_on_every_processor` misses a processor; it is then noticed after
  /// `at_most`.
  /// @return false if `at_most` passed instead
  bool sleep(std::chrono::nanoseconds at_most);

  /// Wakes every sleeping rank of the node. Call it after every store for which a rank may sleep. While no rank sleeps,
  /// it costs one load of a line that is seldom written; without membarrier(2), it costs a locked instruction too.
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

  /// The rank, possibly this one, that gave up first; empty if none has. It costs one load of a word that is written
  /// once, so it can be called at every poll. @pre not closed
  [[nodiscard]] std::optional<LostPeer> given_up() const {
    const std::uint32_t by = view_.alarm->load(std::memory_order_acquire);
    if (by == 0) return std::nullopt;
    return departed(static_cast<int>(by) - 1);
  }

  /// Another rank of the node that left without close(): one that gave up, or one whose process has ended. It makes one
  /// system call per peer. Empty if ranks are threads, which cannot die alone; given_up() reports threads that gave up.
  /// @pre not closed
  [[nodiscard]] std::optional<LostPeer> lost_peer() const;

  /// Longest reason that give_up() passes on; longer ones are cut.
  static constexpr std::size_t longest_reason = 200;

  /// Tells the peers that this rank will not take part any more, and why, and wakes those that sleep. Only the first
  /// reason counts. The memory does not change. Does nothing after close(). Any thread may call it, unless another
  /// thread closes meanwhile.
  void give_up(std::string_view reason) noexcept;

  /// Leaves the group in order: peers do not count this rank as lost from now on. The control area is reused when all
  /// ranks have closed; the node's memory is unmapped when no group, allocation or RankSet of this process needs it.
  /// Not collective. Afterwards only rank(), size(), control_bytes(), locate() and close() may be called.
  void close();

 private:
  void wake() const noexcept;
  [[nodiscard]] LostPeer departed(int rank) const;

  View view_;
  std::shared_ptr<Store> store_;
  std::uint32_t rings_seen_ = 0;  // number of rings at prepare_sleep()
};

struct NodeMemoryOptions {
  Bytes control_bytes{0};  ///< size of each rank's control area; the same on every rank. It costs nothing until it is
                           ///< touched
  /// Address space for each heap, if memory is made instead of shared with other groups. Empty: the size of the
  /// machine's memory, or less if the ranks have fewer addresses. It costs nothing until it is allocated. Ignored if
  /// ranks are threads. The value of rank 0 counts.
  std::optional<Bytes> heap_bytes;
  bool membarrier = true;                      ///< false: does not use it, as on a machine without it
  bool proc = true;                            ///< false: does not use /proc, as where it hides other processes
  std::chrono::milliseconds deadline{10'000};  ///< how long to wait when a descriptor is passed to a peer
  /// Receives notices that are no errors; called on rank 0 of the node.
  std::function<void(std::string_view)> notice;
};

/// Makes the memory of ranks that are threads of this process: one view for each. All memory of the process can be
/// located.
/// @throws Error{invalid_argument} if `ranks` < 1; std::bad_alloc
std::vector<std::shared_ptr<NodeMemory>> make_node_memory_of_threads(int ranks, const NodeMemoryOptions& options);

}  // namespace lockstep
