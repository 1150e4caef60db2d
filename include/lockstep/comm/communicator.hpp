// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/prepared.hpp"
#include "lockstep/comm/work.hpp"

namespace lockstep {

/// What a back end can do. A request outside of it is refused as `unsupported` before anything is sent.
struct Capabilities {
  std::string_view backend;           ///< "mpi_plan", "mpi_native", "local", "nccl"
  bool host_memory = true;            ///< takes buffers in host (and shared, pinned) memory
  bool device_memory = false;         ///< takes buffers in GPU memory
  std::string_view no_reduce_then{};  ///< why it does no reduce_then; empty where it does
  std::string_view no_average{};      ///< why it does no averages; empty where it does
  std::string_view no_leaves{};       ///< why it adds up no leaves of a tree; empty where it does
  bool messages_take_turns = false;   ///< whether sends and recvs run in their order among the other operations
};

/// A group of ranks that operate on buffers together.
///
/// All ranks submit the same operations in the same order with the same counts, dtypes, operators and roots. Operations
/// are numbered as they are submitted, by one thread, that which is the first to use the `Progress`; any number may be
/// under way. A std::span of elements serves as a buffer. Buffers stay untouched by the caller until `Work::wait`
/// returns. An operation that fails poisons its communicator, on all ranks: later submissions throw the same error, and
/// the other ranks, whatever they have pending, fail at their next poll or submission, with the reason
/// (`Error::is_consequence`). So does the destructor of a communicator that was not closed. The buffers of a failed
/// operation must live until its ranks have ended or agreed to go on: other ranks may still read them, and messages
/// under way fill them.
///
/// Every operation @throws Error{invalid_argument} for negative counts, null data, unequal dtypes, partial overlap or a
/// root outside the group; Error{unsupported} outside the capabilities, also for a stream as the queue where the back
/// end takes no device memory; Error{invalid_argument} on another thread than that which uses the `Progress`;
/// Error{transport} on a closed or poisoned communicator. Nothing has been sent then.
class Communicator {
 public:
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;

  /// out[i] = in_0[i] ⊕ … ⊕ in_{p−1}[i] on every rank; overwrites. In place where `in` and `out` are the same memory.
  /// @cost  docs/algorithms.md; of an average one more pass over `out`
  Work all_reduce(ConstBuffer in, Buffer out, ReduceOp op, Queue queue = Queue::host(), std::string_view label = {});
  /// The same of more contributions than ranks, added up in the canonical order over all of them: the bits depend on
  /// how many there are, and not on how many ranks bring them, nor on where these are.
  /// @param in      the first of the sums that this rank brings, of as many elements as `out`, which may be the same
  ///                memory; the others follow as `leaves` says, and are not changed
  /// @param leaves  the same on all ranks
  /// @throws also Error{invalid_argument} if there are fewer leaves than ranks, the sums overlap each other or
  ///         `out`, or averages are asked for; Error{unsupported} where `Capabilities::no_leaves` says why
  /// @cost   2(p−1)α + (m+1)(p−1)/p·nβ for m sums a rank; between ranks that share memory of the shared-memory
  ///         all-reduce, of m·n bytes
  Work all_reduce(ConstBuffer in, Buffer out, ReduceOp op, const Leaves& leaves, Queue queue = Queue::host(),
                  std::string_view label = {});
  /// An all_reduce whose sums pass through `function` on their way: each element once, on one of the ranks, when its
  /// sum is complete and before anybody else sees it. Then every rank's `out` holds what the function made, the same
  /// bits on all. It is for a step of an optimizer that each rank makes for its slice of the weights: `in` are the
  /// gradients, `out` the weights, and the function gets the sums while they are in cache.
  ///
  /// How the buffer is cut is the algorithm's matter: a rank is called for any number of slices, or none, in any order
  /// but one after the other. The slices of all ranks are disjoint and cover the buffer, and are the same ones in every
  /// reduce_then of this count and dtype on this communicator.
  ///
  /// The function runs on whichever thread moves the operation on: one that submits, waits or polls, or the progress
  /// thread. It must not use this rank's communicators. What it throws becomes this operation's failure,
  /// of which the other ranks hear.
  /// @param function  kept by the operation at least until that has ended; without an allocation if it captures no more
  ///                  than two pointers
  /// @throws also Error{unsupported} where `Capabilities::no_reduce_then` says why
  /// @cost  of the all_reduce that would be chosen, or of the one that stands for it (docs/algorithms.md)
  Work reduce_then(ConstBuffer in, Buffer out, ReduceOp op, const SliceFunction& function, Queue queue = Queue::host(),
                   std::string_view label = {});
  /// Overwrites `buffer` with the root's.
  Work broadcast(Buffer buffer, Rank root, Queue queue = Queue::host(), std::string_view label = {});
  /// out = in_0 | in_1 | … (n elements each, p·n in all). In place where `in` is the caller's part of `out`.
  Work all_gather(ConstBuffer in, Buffer out, Queue queue = Queue::host(), std::string_view label = {});
  /// out (n elements) = part `rank` of the sum over ranks of `in` (p·n elements); `in` is not changed. In place where
  /// `out` is the caller's part of `in`.
  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op, Queue queue = Queue::host(),
                      std::string_view label = {});
  /// Root: out[i] = in_0[i] ⊕ … ⊕ in_{p−1}[i]; overwrites; in place where `in` and `out` are the same memory. The other
  /// ranks' `out` is neither looked at nor touched and may be `{}`, and their `in` is not changed.
  Work reduce(ConstBuffer in, Buffer out, ReduceOp op, Rank root, Queue queue = Queue::host(),
              std::string_view label = {});
  /// Root: out = in_0 | in_1 | … (n elements each, p·n in all); overwrites; in place where the root's `in` is its part
  /// of `out`. The other ranks' `out` is neither looked at nor touched and may be `{}`.
  /// @cost  ⌈log₂p⌉·α + (p−1)·nβ by messages (n in bytes); 2α + nβ between ranks that share memory
  Work gather(ConstBuffer in, Buffer out, Rank root, Queue queue = Queue::host(), std::string_view label = {});
  /// out (n elements) = part `rank` of the root's `in` (p·n elements), which is not changed; in place where the root's
  /// `out` is its part of `in`. The other ranks' `in` is not looked at and may be `{}`.
  /// @cost  as gather
  Work scatter(ConstBuffer in, Buffer out, Rank root, Queue queue = Queue::host(), std::string_view label = {});
  /// out = in_0 | in_1 | …, of which in_k has counts[k] elements (p counts, the same on all ranks; any may be 0). In
  /// place where `in` is the caller's part of `out`.
  /// @throws also Error{invalid_argument} unless there are p counts, none negative, that fit the buffers
  /// @cost  at most (p−1)(α + mβ) by messages, with m bytes in the longest part; 2α + (N − n)β between ranks that share
  ///        memory, with N bytes in all and n in the caller's part
  Work all_gather_v(ConstBuffer in, Buffer out, std::span<const Count> counts, Queue queue = Queue::host(),
                    std::string_view label = {});
  /// out (counts[rank] elements) = that part of the sum over ranks of `in`, in which parts of counts[0], counts[1], …
  /// elements lie one behind the other (p counts, the same on all ranks; any may be 0); `in` is not changed. In place
  /// where `out` is the caller's part of `in`.
  /// @throws as all_gather_v
  /// @cost  that of all_gather_v, and the additions of as many bytes as a rank receives
  Work reduce_scatter_v(ConstBuffer in, Buffer out, std::span<const Count> counts, ReduceOp op,
                        Queue queue = Queue::host(), std::string_view label = {});
  /// Part j of rank i's `in` becomes part i of rank j's `out`; overwrites. Parts lie one behind the other: those of
  /// `in` have sent[0], sent[1], … elements, those of `out` received[0], received[1], …. Each rank passes its own
  /// counts, any of which may be 0; what i sends to j must be what j receives from i. Where it is not, the operation
  /// fails as Error{mismatch} on the rank that receives and names the one that sends. Never in place.
  /// @throws also Error{invalid_argument} unless there are p counts each, none negative, that fit the buffers, and
  ///         sent[rank] == received[rank]; or if the buffers overlap in any way
  /// @cost  of an all_to_all by messages, also between ranks that share memory: (p−1)(α + nβ) if all parts have n
  ///        bytes. A pair that has nothing to send exchanges an empty message, by which the counts are checked
  Work all_to_all_v(ConstBuffer in, std::span<const Count> sent, Buffer out, std::span<const Count> received,
                    Queue queue = Queue::host(), std::string_view label = {});
  /// Part j of rank i's `in` becomes part i of rank j's `out`; overwrites (p parts of n elements in each, n the same on
  /// all ranks). Never in place: a part would be overwritten before it is sent.
  /// @throws also Error{invalid_argument} if the buffers overlap in any way, or do not divide into p equal parts
  Work all_to_all(ConstBuffer in, Buffer out, Queue queue = Queue::host(), std::string_view label = {});
  /// Done when every rank has submitted it.
  Work barrier(std::string_view label = {});

  /// Sends `in` to a rank, which may be this one. What it sends to another rank meets the recvs of that rank from here
  /// in their order. Sends and recvs take no turn among the other operations: they begin when they are submitted, and
  /// may be submitted before, between or after any of those, on each rank otherwise. Done when `in` may be written
  /// again, which is no sign that it has been received. What nobody has received when the communicator is closed is
  /// lost.
  ///
  /// Both sides pass the same count, dtype and label. Who receives finds out where they do not, before data are
  /// touched: its recv fails with Error{mismatch} that names the other rank, and the other rank's operations as the
  /// consequence. NCCL compares nothing, and runs sends and recvs in their order among the other operations
  /// (`Capabilities::messages_take_turns`): what must be under way together is submitted as a group.
  /// @throws also Error{invalid_argument} for a rank outside the group
  /// @cost   α + nβ up to 240 bytes, else 2α + nβ; as messages also between ranks of a node
  Work send(ConstBuffer in, Rank to, Queue queue = Queue::host(), std::string_view label = {});
  /// Overwrites `out` with what `from` sends here. @throws and @cost as send
  Work recv(Buffer out, Rank from, Queue queue = Queue::host(), std::string_view label = {});

  /// Any of these by its arguments, as a value.
  Work start(Collective collective);
  /// Several operations submitted as one, in this order: the arguments of all are checked before any is begun, and
  /// nothing of this rank comes between them. For NCCL they are one launch, in which messages that wait for each other
  /// are under way together. All ranks submit the same members but for messages, which only their two ranks have; a
  /// rank without any need not submit the group.
  /// @return by what each is waited for, in the order of the members
  /// @throws as the member that is refused; then none has been submitted
  /// @cost   that of the members, and the memory of the list
  std::vector<Work> group(std::span<const Collective> members);
  /// The same for members that are written down in the call.
  std::vector<Work> group(std::initializer_list<Collective> members) {
    return group(std::span(members.begin(), members.size()));
  }

  /// An all_reduce to be started again and again; the buffers stay where they are, the label is copied. Local.
  Prepared prepare_all_reduce(ConstBuffer in, Buffer out, ReduceOp op, std::string_view label = {});
  /// The same of any operation; the collective's queue is not looked at.
  Prepared prepare(Collective collective);

  /// Memory from which this back end's operations are fastest; zeroed.
  /// @throws std::bad_alloc; Error{device}
  virtual Allocation allocate(Bytes bytes);

  /// Lets the operations of all ranks on this communicator fail, those under way and those to come, with this reason
  /// and this rank's name. From any thread, but not beside close() or the destructor. Ranks of other nodes are told at
  /// once on the thread that submits this rank's operations, and from another one only as this rank, or another of its
  /// node, polls.
  virtual void abort(std::string_view why) noexcept = 0;

  /// Lets the destructor close the communicator where no exception is under way, no operation pending, and `may_close`
  /// returns true. Otherwise, and without this, the destructor of an open communicator lets the other ranks fail.
  void close_when_destroyed(std::function<bool()> may_close) { may_close_ = std::move(may_close); }
  /// Calls this in the destructor, after the back end's own: for who keeps a list of communicators. It must not throw.
  void when_destroyed(std::function<void()> call) { when_destroyed_.push_back(std::move(call)); }

  /// Ends the communicator. Collective; every Work must have been waited for. Calling it again does nothing.
  /// @throws Error{transport}
  virtual void close() = 0;

 protected:
  /// For a back end: this rank's number and how many there are.
  Communicator(Rank rank, int size) : rank_(rank), size_(size) {}
  /// For the destructor of a back end, which calls it before it takes anything apart: closes what may be closed.
  void close_if_wanted() noexcept;
  /// Begins a collective that has been checked.
  virtual Work submit(const Collective& collective) = 0;
  /// Of members that have been checked. A back end that has nothing to join submits them one by one.
  virtual std::vector<Work> submit_group(std::span<const Collective> members);
  /// What is kept of a collective that has been checked. A back end that has nothing to prepare submits it at each
  /// start.
  virtual std::unique_ptr<Preparation> make_preparation(const Collective& collective);
  /// @throws Error{unsupported} where the back end does not order its operations after streams
  void check_queue(const Collective& collective, Queue queue) const;

 private:
  [[nodiscard]] Error refusal(ErrorCode code, const std::string& why, const Collective& collective) const;
  void check(Collective& collective) const;
  Work submit_checked(Collective&& collective);

  Rank rank_;
  int size_;
  std::function<bool()> may_close_;
  std::vector<std::function<void()>> when_destroyed_;
};

}  // namespace lockstep
