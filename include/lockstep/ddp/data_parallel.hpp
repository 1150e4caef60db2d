// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep {

/// A tensor of the program's own. Both buffers have as many elements, of one dtype and kind of memory for all
/// parameters, and outlive the DataParallel.
struct Parameter {
  std::string name;
  Buffer value;
  /// Left empty, it lies in the memory that is reduced, where `DataParallel::gradient` says: nothing is copied then.
  Buffer gradient = {};
};

/// How all ranks come to the same initial values: rank 0's are sent to all, or all are compared.
enum class InitialValues { broadcast, compare };

/// The same on all ranks, but for the observer.
struct DataParallelOptions {
  /// Gradients are all-reduced together until they hold this much; a quarter of it, and 1 MiB at most, the first time
  /// in a step, when most of backward is still to come.
  Bytes bucket{25 << 20};
  InitialValues initial = InitialValues::broadcast;
  /// Whether finish() says which gradients are not finite: the same on all ranks. @cost  two passes over them, in
  /// memory of the host
  bool check_finite = false;
  /// Each rank updates its own part of each bucket only, `owned()`, and `gather(values())` brings the others: so it
  /// needs the optimizer's state for its part only. Buckets are reduce-scattered; with shards they are all-reduced, as
  /// the canonical order is kept by that alone.
  /// @source Rajbhandari et al.: ZeRO, SC 2020, stage 1
  bool share_update = false;
  /// Of a step, over all ranks: gradients are added in the canonical order over them, so that the bits do not depend on
  /// the number of ranks. Rank r of p has `share_of(shards, r, p)`, and leaves the sums `tree_nodes` of their gradients
  /// in the first of `gradient_places()`. 0: each rank brings one gradient, and they are added in any order.
  int shards = 0;
  int places = 1;  ///< how many gradients of the layout this rank's memory is to hold; at least as many as sums
  /// finish() compares the ranks' values, as they are before the update, in the second step with a group and in every
  /// one that this divides; 0: never. Ranks whose updates differ, or that reduce another gradient than they have, are
  /// found so. Values in memory of a GPU are not compared. @cost  64 bytes more in an all-reduce that each step has,
  /// and a pass over the values in a step that compares: of 100 steps, which read and write values, gradients and the
  /// optimizer's state a dozen times each, less than 0.1 %
  std::int64_t compare_every = 100;
  Observer* observer = nullptr;  ///< gets the span "wait for gradients" on the track "compute"; outlives this
};

/// Makes a training loop data-parallel: gradients are summed over the ranks of a group while backward is still at work,
/// so that every rank can make the same update.
///
///   forward, backward, ready(i) for each gradient as it is complete → finish(weight) → update by sum ÷ Σ weight
///
/// Gradients become plain sums; whoever applies them divides by the sum of weights, once. So ranks' shares may differ,
/// or be empty. It uses the group's `communicator()` and `control()`, so a group has one DataParallel at a time.
///
/// It is made on the group's thread. Afterwards any threads may call `ready`, `progress`, `finish`, `finish_on`,
/// `gather` and `synchronize`, also at once, as those do that run hooks during a backward: they take turns. What the
/// program does with the group otherwise happens before or after these calls. MPI has to be initialized with
/// MPI_THREAD_SERIALIZED at least where another thread calls, as `World` does. Move-only.
class DataParallel {
 public:
  /// In memory of its own, where the group's operations are fastest, zeroed: the program writes `values()` and then
  /// calls `synchronize()`. Collective.
  /// @param group  outlives this, or the next rebind()
  /// @throws Error{mismatch} on every rank, naming the ranks, if they differ in layout, dtype or bucket size;
  ///         Error{invalid_argument} if the bucket size is not positive, there are fewer shards than ranks, or fewer
  ///         places than sums; Error{unsupported} if gradients in memory of a GPU are to be checked or sharded,
  ///         or their update shared, or the group's method adds up no leaves of a tree; std::bad_alloc
  DataParallel(ProcessGroup& group, Layout layout, DType dtype, const DataParallelOptions& options = {});
  /// With the program's own tensors, whose values it synchronizes at once. Collective.
  /// @throws also Error{invalid_argument} that names the parameter whose buffers do not fit each other;
  ///         Error{unsupported} if the update is to be shared, or gradients sharded
  /// @cost  gradients that the program has elsewhere pass through memory of its own: one copy in `ready`, one back in
  ///        `finish`; those that `Parameter` leaves to it do not
  DataParallel(ProcessGroup& group, std::vector<Parameter> parameters, const DataParallelOptions& options = {});
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  ~DataParallel();

  [[nodiscard]] const Layout& layout() const;
  /// A parameter's elements, by its place in `layout()`.
  [[nodiscard]] Buffer value(int parameter) const;
  /// Its gradient's, as many: where `ready` was given it last, or as the constructor was told, or in memory of its own.
  [[nodiscard]] Buffer gradient(int parameter) const;
  /// All of them as one, of `layout()`. Only of memory of its own. @throws Error{invalid_argument} for the program's
  /// tensors
  [[nodiscard]] Buffer values() const;
  [[nodiscard]] Buffer gradients() const;
  /// The same as often as the options say, one behind the other, of which `gradients()` are the first.
  [[nodiscard]] Buffer gradient_places() const;

  /// Overwrites all ranks' values with rank 0's, or compares them, as the options say. To be called before the first
  /// step, and whenever values were written by other means than an update that all ranks made; on a GPU, when the host
  /// has seen that they are written. Collective.
  /// @throws Error{mismatch} on every rank, naming the ranks that are not like rank 0; Error{transport | timeout}
  void synchronize();

  /// The parameter's gradient is complete; nobody touches it until finish(), or on the queue until finish_on(). In any
  /// order: gradients leave in the order of buckets, which is that of the layout, backwards.
  /// @param queue  where it is complete: the same for all of a step
  /// @throws Error{invalid_argument} that names the parameter if it was ready already, if synchronize() was not called,
  ///         or if gradients are to be checked and the queue is a stream; Error{unsupported} on another thread if MPI
  ///         was not initialized for that; Error{transport | timeout}
  void ready(int parameter, Queue queue = Queue::host());
  /// Takes a gradient that may have moved, such as that of a std::vector or of a tensor that the program replaces:
  /// what is reduced is what the program has. From now on the parameter's gradient is there; finish() writes its sum
  /// there, also in later steps in which it is not made ready, until another call says where it has moved.
  /// @param gradient  of as many elements and the same dtype; `gradient(parameter)` may be among what it can be
  /// @throws also Error{invalid_argument} that names the parameter if the buffer is null or of another count or dtype,
  ///         or, with shards or share_update, any other memory than `gradient(parameter)`; nothing has changed then
  /// @cost   a copy, and one back in `finish`, unless it is memory of the DataParallel's own
  void ready(int parameter, const Buffer& gradient, Queue queue = Queue::host());
  /// Moves what is under way, without waiting: to be called now and then during backward, unless a progress thread
  /// runs.
  void progress();

  /// Gradients with elements that are infinite or not numbers.
  struct NotFinite {
    std::optional<int> rank;      ///< whose they are; none: each rank's own are finite, but not their sums
    std::string host;             ///< its host
    std::vector<int> parameters;  ///< ascending
  };
  /// What the ranks have found out together in one finish(); the same on all.
  struct Step {
    double weight = 0;                  ///< Σ over ranks
    std::vector<int> unused;            ///< the parameters that no rank made ready; their gradients are zero
    std::vector<NotFinite> not_finite;  ///< by rank; looked for if the options say so
  };
  /// What a program finds in the sums of gradients, e.g. their squares.
  struct Finding {
    std::span<double> numbers;   ///< as many on all ranks
    std::function<void()> find;  ///< overwrites them by the sums in `summed()`, which have come; throws nothing
  };
  /// Overwrites the gradients of `summed()` with their sums over the ranks, the same bits on all; what is no part of it
  /// holds nothing of use. A parameter that this rank did not make ready contributes zeros, whatever its gradient
  /// holds. Collective.
  /// @param weight   this rank's, not negative; e.g. its number of samples
  /// @param sums     further numbers to add up over ranks, e.g. the loss; overwritten. As many on all ranks
  /// @param finding  numbers that ranks find each in the parts that they have the sums of: these are added up
  /// @throws Error{invalid_argument} for a weight that is negative or not a number, or if synchronize() was not called;
  ///         Error{mismatch} on every rank, after the sums have come, that names the first tensor whose values differ,
  ///         the ranks that have other values than most (or, of as many, than rank 0) and the step, as
  ///         `DataParallelOptions::compare_every` says; Error{transport | timeout | mismatch}
  /// @cost  one all-reduce of 8 bytes for each parameter and number, beside the last buckets; after them one more, of
  ///        findings and, if gradients are checked, of 8 bytes for each parameter, where ranks have sums of their own
  Step finish(double weight, std::span<double> sums = {}, const Finding& finding = {});

  /// As finish(), for a step in which the host waits for nothing, and which a CUDA graph may hold: what `queue` gets
  /// from here on finds the sums. All parameters were made ready; nothing but gradients is exchanged, and what
  /// backwards under no_sync() have added up beside them is dropped. A failure is thrown by a later call. Where the
  /// operations run on the host, or the queue is the host's, it waits; else the host waits for the queue before this is
  /// destroyed.
  ///
  /// A step is captured from the stream that its kernels and ready() are given: `finish_on` the same, the update, then
  /// the end of the capture. docs/gpus.md has the rules, examples/cuda_step.cu all of it.
  /// @throws Error{invalid_argument} that names a parameter that is not ready, which may still become so; or if
  ///         synchronize() was not called, no_sync() is in force, or gradients are to be checked;
  ///         Error{transport | timeout | mismatch}, also of steps before
  void finish_on(Queue queue);

  /// The elements of flat allocations that this rank updates: ascending, disjoint, and on all ranks together the
  /// layout, if the update is shared, and no rank has more of them than rank 0; else the whole layout. Valid until the
  /// next rebind(), which may change it.
  [[nodiscard]] const std::vector<LayoutPart>& owned() const;
  /// Those whose gradients are summed here: `owned()`, or with shards the whole layout.
  [[nodiscard]] const std::vector<LayoutPart>& summed() const;
  /// Overwrites what other ranks own with what they have there, in `values()` after an update, or in any flat buffer of
  /// the layout, of one dtype on all ranks; nothing if the update is not shared. Collective, between steps.
  /// @throws Error{invalid_argument} for another count or within a step; Error{transport | timeout | mismatch}
  void gather(const Buffer& flat);

  /// While it lives, `ready` and `finish` send nothing: the program goes on adding to the gradients, and weights,
  /// numbers and who is ready add up until the first finish() after it, which sends the gradients of all parameters
  /// that were ready since the last. `finish` returns this rank's weight so far, leaves `sums` as they are and finds
  /// nothing.
  class [[nodiscard]] NoSync {
   public:
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { *scopes_ -= count_; }

   private:
    friend class DataParallel;
    NoSync(int& scopes, bool on) : scopes_(&scopes), count_(on ? 1 : 0) { scopes += count_; }
    int* scopes_;
    int count_;
  };
  /// `auto guard = parallel.no_sync(step % 4 != 3);` sends the gradients of four backwards together.
  /// @param on  whether it does anything
  /// @pre no parameter is ready that has not been finished
  NoSync no_sync(bool on = true);

  /// The number of the step that comes next, which errors name; the first is 1 otherwise, and each is one more than the
  /// one before. A program says so that goes on from a checkpoint. Changes nothing else.
  void number_steps_from(std::int64_t next);

  /// Goes on with another group: values are kept, buffers asked for before are not valid any more (but for the
  /// program's own). Where ranks join that have other values, all call synchronize() next. Collective over `group`,
  /// with those that make a DataParallel there, between steps; on a GPU, when the host has seen that values are
  /// written.
  /// @throws as the constructors; Error{invalid_argument} within a step
  void rebind(ProcessGroup& group);

  /// What is reduced together, in the order in which it leaves.
  [[nodiscard]] std::vector<Bytes> bucket_sizes() const;
  /// Time that this rank has spent in `finish` or `finish_on` waiting for gradients, and in `gather`, since
  /// construction.
  [[nodiscard]] double exposed_seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
