// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/work.hpp"

namespace lockstep {

/// The capabilities of a back end. Any other request is refused as `unsupported` before anything is sent.
struct Capabilities {
  std::string_view backend;          ///< "plan", "mpi_native", "local", "nccl"
  bool host_memory = true;           ///< takes buffers in host (and shared, pinned) memory
  bool device_memory = false;        ///< takes buffers in GPU memory
  std::string_view no_average{};     ///< why averages are not supported; empty if they are
  std::string_view no_leaves{};      ///< why leaves of a tree cannot be added; empty if they can
  std::string_view no_scan{};        ///< why there are no scans; empty if there are
  std::span<const DType> dtypes{};   ///< the types of elements that it takes; empty: all
  std::span<const ReduceOp> ops{};   ///< its operators; empty: all
  bool messages_take_turns = false;  ///< whether sends and recvs are ordered among the other operations
};

class BackEnd;

/// A group of ranks that run collective operations on buffers.
///
/// All ranks submit the same operations in the same order with the same counts, dtypes, operators and roots. Operations
/// are numbered in the order of submission. One thread submits them, the first that uses the `Progress`; any number may
/// be under way. A std::span of elements serves as a buffer. The caller must not touch buffers until `Work::wait`
/// returns. A failed operation poisons its communicator on all ranks: later submissions throw the same error, and on
/// the other ranks pending operations fail at their next poll or submission, with the reason (`Error::is_consequence`).
/// The destructor of a communicator that was not closed poisons it in the same way. The buffers of a failed operation
/// must live until its ranks have ended or agreed to continue, because other ranks may still read them, and messages
/// that are under way may be written to them.
///
/// Every operation @throws Error{invalid_argument} for counts that are negative or more than memory can hold, numbers
/// that are none of an enumeration's, null data, unequal dtypes, partial overlap or a root outside the group;
/// Error{unsupported} outside the capabilities, also for a stream as the queue if the back end takes no device memory;
/// Error{invalid_argument} on another thread than the one that uses the `Progress`; Error{transport} on a closed or
/// poisoned communicator. Nothing has been sent then.
class Communicator final {
 public:
  /// For back ends: makes a communicator of what runs its operations.
  explicit Communicator(std::unique_ptr<BackEnd> back_end);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const Capabilities& capabilities() const;

  /// out[i] = in_0[i] ⊕ … ⊕ in_{p−1}[i] on every rank; overwrites `out`. In place if `in` and `out` are the same
  /// memory.
  /// @cost  docs/algorithms.md; an average takes one more pass over `out`
  Work all_reduce(ConstBuffer in, Buffer out, ReduceOp op, Queue queue = Queue::host(), std::string_view label = {});
  /// All-reduces more contributions than ranks, added in the canonical order over all contributions. The bits depend on
  /// the number of contributions, but not on the number of ranks, nor on which rank has which contribution.
  /// @param in      the first of this rank's sums, with as many elements as `out`, and possibly the same memory; the
  ///         others follow at the stride of `leaves` and are not changed
  /// @param leaves  the same on all ranks
  /// @throws also Error{invalid_argument} if there are fewer leaves than ranks, the sums overlap each other or `out`,
  ///         or `op` is the average; Error{unsupported} with the reason `Capabilities::no_leaves`
  /// @cost   2(p−1)α + (m+1)(p−1)/p·nβ for m sums per rank; between ranks that share memory, the cost of the
  ///         shared-memory all-reduce of m·n bytes
  Work all_reduce(ConstBuffer in, Buffer out, ReduceOp op, const Leaves& leaves, Queue queue = Queue::host(),
                  std::string_view label = {});
  /// Overwrites `buffer` with the root's.
  Work broadcast(Buffer buffer, Rank root, Queue queue = Queue::host(), std::string_view label = {});
  /// out = in_0 | in_1 | … (n elements each, p·n in total). In place if `in` is the caller's part of `out`.
  Work all_gather(ConstBuffer in, Buffer out, Queue queue = Queue::host(), std::string_view label = {});
  /// out (n elements) = part `rank` of the sum over ranks of `in` (p·n elements); `in` is not changed. In place if
  /// `out` is the caller's part of `in`.
  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op, Queue queue = Queue::host(),
                      std::string_view label = {});
  /// Root: out[i] = in_0[i] ⊕ … ⊕ in_{p−1}[i]; overwrites `out`; in place if `in` and `out` are the same memory. On the
  /// other ranks `out` is ignored and may be `{}`, and `in` is not changed.
  Work reduce(ConstBuffer in, Buffer out, ReduceOp op, Rank root, Queue queue = Queue::host(),
              std::string_view label = {});
  /// Root: out = in_0 | in_1 | … (n elements each, p·n in total); overwrites `out`; in place if the root's `in` is its
  /// part of `out`. On the other ranks `out` is ignored and may be `{}`.
  /// @cost  ⌈log₂p⌉·α + (p−1)·nβ by messages (n in bytes); 2α + nβ between ranks that share memory
  Work gather(ConstBuffer in, Buffer out, Rank root, Queue queue = Queue::host(), std::string_view label = {});
  /// out (n elements) = part `rank` of the root's `in` (p·n elements), which is not changed; in place if the root's
  /// `out` is its part of `in`. On the other ranks `in` is ignored and may be `{}`.
  /// @cost  as gather
  Work scatter(ConstBuffer in, Buffer out, Rank root, Queue queue = Queue::host(), std::string_view label = {});
  /// out = in_0 | in_1 | …, where in_k has counts[k] elements (p counts, the same on all ranks; any may be 0). In place
  /// if `in` is the caller's part of `out`.
  /// @throws also Error{invalid_argument} unless there are p counts, none negative, that fit the buffers
  /// @cost  at most (p−1)(α + mβ) by messages, with m bytes in the longest part; 2α + (N − n)β between ranks that share
  ///        memory, with N bytes in total and n in the caller's part
  Work all_gather_v(ConstBuffer in, Buffer out, std::span<const Count> counts, Queue queue = Queue::host(),
                    std::string_view label = {});
  /// out (counts[rank] elements) = part `rank` of the sum over ranks of `in`, which consists of parts of counts[0],
  /// counts[1], … elements, one after the other (p counts, the same on all ranks; any may be 0); `in` is not changed.
  /// In place if `out` is the caller's part of `in`.
  /// @throws as all_gather_v
  /// @cost  the cost of all_gather_v, and the additions of as many bytes as a rank receives
  Work reduce_scatter_v(ConstBuffer in, Buffer out, std::span<const Count> counts, ReduceOp op,
                        Queue queue = Queue::host(), std::string_view label = {});
  /// Part j of rank i's `in` becomes part i of rank j's `out`; overwrites `out`. Parts are one after the other: those
  /// of `in` have sent[0], sent[1], … elements, those of `out` received[0], received[1], …. Each rank passes its own
  /// counts, any of which may be 0. What i sends to j must be what j receives from i; otherwise the operation fails
  /// with Error{mismatch} on the receiving rank, which names the sender. Never in place.
  /// @throws also Error{invalid_argument} unless there are p counts each, none negative, that fit the buffers, and
  ///         sent[rank] == received[rank], and if the buffers overlap in any way
  /// @cost  the cost of an all_to_all by messages, also between ranks that share memory: (p−1)(α + nβ) if all parts
  ///        have n bytes. A pair of ranks that has nothing to send exchanges an empty message to check the counts
  Work all_to_all_v(ConstBuffer in, std::span<const Count> sent, Buffer out, std::span<const Count> received,
                    Queue queue = Queue::host(), std::string_view label = {});
  /// Part j of rank i's `in` becomes part i of rank j's `out`; overwrites `out` (p parts of n elements in each, n the
  /// same on all ranks). Never in place: a part would be overwritten before it is sent.
  /// @throws also Error{invalid_argument} if the buffers overlap in any way, or do not divide into p equal parts
  Work all_to_all(ConstBuffer in, Buffer out, Queue queue = Queue::host(), std::string_view label = {});
  /// out[i] on rank r = in_0[i] ⊕ … ⊕ in_r[i], from left to right; overwrites `out`; in place if `in` and `out` are the
  /// same memory. A rank's bits do not depend on the number of ranks behind it.
  /// @throws also Error{invalid_argument} if `op` is the average; Error{unsupported} with the reason
  ///         `Capabilities::no_scan`
  /// @cost  (p−1)(α + nβ) by messages (n in bytes); 2α + (p−1)·nβ between ranks that share memory
  Work scan(ConstBuffer in, Buffer out, ReduceOp op, Queue queue = Queue::host(), std::string_view label = {});
  /// out[i] on rank r = in_0[i] ⊕ … ⊕ in_{r−1}[i], otherwise as `scan`. Rank 0 gets the operator's neutral element,
  /// which is −0 for sums of floating-point numbers.
  Work exclusive_scan(ConstBuffer in, Buffer out, ReduceOp op, Queue queue = Queue::host(),
                      std::string_view label = {});
  /// Ends when every rank has submitted it.
  Work barrier(std::string_view label = {});

  /// Sends `in` to a rank, which may be this one. Sends to a rank match that rank's recvs from here in their order.
  /// Sends and recvs are not ordered among the other operations: they begin when they are submitted, and each rank may
  /// submit them before, between or after other operations. A send ends when `in` may be written again, which does not
  /// mean that it has been received. A message that has not been received when the communicator is closed is lost.
  ///
  /// Both sides pass the same count, dtype and label. The receiver checks this before it touches data: if they differ,
  /// its recv fails with Error{mismatch} that names the other rank, and the other rank's operations fail as a
  /// consequence. NCCL does not compare them, and orders sends and recvs among the other operations
  /// (`Capabilities::messages_take_turns`), so messages that must be under way at the same time are submitted as a
  /// group.
  /// @throws also Error{invalid_argument} for a rank outside the group
  /// @cost   α + nβ up to 240 bytes, else 2α + nβ; ranks of a node use messages as well
  Work send(ConstBuffer in, Rank to, Queue queue = Queue::host(), std::string_view label = {});
  /// Overwrites `out` with the data that `from` sends to this rank. @throws as send. @cost  as send
  Work recv(Buffer out, Rank from, Queue queue = Queue::host(), std::string_view label = {});

  /// Sends `in` to one rank and overwrites `out` with the data that another one sends to this rank, both at once, and
  /// waits for both, as MPI_Sendrecv does. Without a rank (std::nullopt, as at the end of a line of ranks) nothing is
  /// sent, or nothing received.
  /// @throws as send and recv, and as Work::wait. @cost  the cost of a send and a recv, which overlap
  void send_recv(ConstBuffer in, std::optional<Rank> to, Buffer out, std::optional<Rank> from,
                 Queue queue = Queue::host(), std::string_view label = {});

  /// Starts any of these operations, described by its arguments.
  Work start(Collective collective);
  /// Submits several operations as one, in this order: the arguments of all are checked before the first begins, and no
  /// other operation of this rank comes between them. NCCL runs them in one launch, in which messages that wait for
  /// each other are under way at the same time. All ranks submit the same members, except for messages, which only
  /// their two ranks submit; a rank without members need not submit the group.
  /// @return a Work for each member, in their order
  /// @throws as the member that is refused, and then none has been submitted
  /// @cost   the cost of the members, and the memory of the list
  std::vector<Work> group(std::span<const Collective> members);
  /// Submits members that are listed in the call.
  std::vector<Work> group(std::initializer_list<Collective> members) {
    return group(std::span(members.begin(), members.size()));
  }

  /// Prepares an all_reduce that is started many times. The buffers stay where they are, and the label is copied.
  /// Local.
  Prepared prepare_all_reduce(ConstBuffer in, Buffer out, ReduceOp op, std::string_view label = {});
  /// Prepares any operation; the queue of the collective is ignored. Local.
  Prepared prepare(Collective collective);

  /// Allocates zeroed memory in which this back end's operations are fastest.
  /// @throws std::bad_alloc; Error{invalid_argument} for a negative size; Error{unsupported} if the memory that the
  ///         ranks of a node share has no room; Error{device | out_of_memory}
  Allocation allocate(Bytes bytes);

  /// Makes all operations of all ranks on this communicator fail, current and later ones, with this reason and this
  /// rank's name. Any thread may call it, but not concurrently with close() or the destructor. It notifies ranks of
  /// other nodes at once, though the thread that submits this rank's operations computes or is stuck. Where messages go
  /// by MPI, another thread does so only if MPI was initialized with MPI_THREAD_MULTIPLE, as `World` does; otherwise
  /// they are notified when this rank, or another rank of its node, polls.
  /// @cost  at most 40 ms; it waits for no other rank
  void abort(std::string_view why) noexcept;

  /// Ends the communicator. Collective; every Work must have been waited for. Calling it again does nothing.
  /// @throws Error{transport}
  void close();

 private:
  friend BackEnd& back_end_of(const Communicator& communicator);

  std::unique_ptr<BackEnd> back_end_;
  Rank rank_;
  int size_;
};

/// Returns the ranks whose number differs from rank 0's, in ascending order. The result is the same on all ranks.
/// Collective.
/// @param number  for instance a hash of what has to be equal on all ranks
/// @cost  one all_gather
std::vector<int> ranks_unlike_zero(Communicator& communicator, std::uint64_t number, std::string_view label);

}  // namespace lockstep
