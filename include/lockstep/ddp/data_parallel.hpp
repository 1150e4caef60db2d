// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep {

/// A tensor of the program. Both buffers have the same number of elements. All parameters have the same dtype and kind
/// of memory. The buffers must outlive the DataParallel.
struct Parameter {
  std::string name;
  Buffer value;
  /// Empty: the gradient is in the DataParallel's own memory, at `DataParallel::gradient`, and is not copied.
  Buffer gradient = {};
};

/// How all ranks get equal initial values: rank 0's values are broadcast, or the values of all ranks are compared.
enum class InitialValues { broadcast, compare };

/// Options of a DataParallel. They must be the same on all ranks, except for the observer.
struct DataParallelOptions {
  /// Size of a bucket of gradients that are all-reduced together. The first bucket of a step is a quarter of it, at
  /// most 1 MiB, because most of backward is still to come then. The last ones get smaller, down to a quarter of the
  /// first, because what is complete when backward ends is exchanged after it. With `one_bucket` the gradients are
  /// all-reduced together when backward ends, which shows what overlap gains.
  Bytes bucket{25 << 20};
  static constexpr Bytes one_bucket{std::numeric_limits<std::int64_t>::max()};
  InitialValues initial = InitialValues::broadcast;
  /// Whether finish() reports which gradients are not finite, with the same result on all ranks.
  /// On GPUs, a build without a CUDA compiler cannot check, and says so in the first step.
  /// @cost  two more passes over the gradients. On a GPU, finish() then waits for the queue of the gradients before it
  ///        sends this rank's numbers
  bool check_finite = false;
  /// Shards the optimizer: each rank updates only its own part of each bucket, `owned()`, and needs the optimizer state
  /// of that part only. `gather(values())` then brings the other parts. Buckets are reduce-scattered. With shards they
  /// are all-reduced instead, because only an all-reduce keeps the canonical order.
  /// @source Rajbhandari et al.: ZeRO, SC 2020, stage 1
  bool shard_optimizer = false;
  /// Number of shards of a step, over all ranks. Their gradients are added in the canonical order, so that the bits do
  /// not depend on the number of ranks. Rank r of p has the shards `share_of(shards, r, p)`, or those of `move_shards`,
  /// and writes the sums of their gradients, `tree_nodes`, to the first of `gradient_places()`. 0: no shards; each rank
  /// contributes one gradient, and gradients are added in any order.
  int shards = 0;
  int places = 1;  ///< number of gradient buffers of the layout in this rank's memory; at least one for each sum
  /// finish() compares the ranks' values, as they are before the update, in the second step with a group and in every
  /// step of the group that this number divides; in all other steps it compares eight elements of each tensor. 0:
  /// never. The comparison finds ranks whose updates differ, or which apply other gradients than the reduced ones.
  /// Values in GPU memory are not compared.
  /// @cost  64 more bytes in an all-reduce that each step has anyway, eight elements of each tensor in each step, and a
  ///        pass over the values in a step that compares all: less than 0.1 % of 100 steps that each read and write
  ///        values, gradients and optimizer state a dozen times
  std::int64_t compare_every = 100;
  /// Whether a step may leave a parameter without a gradient, on every rank or on some ranks whose weight is above 0.
  /// By default finish() reports it, because the usual cause is a forgotten `ready`, after which the parameter would be
  /// trained wrongly or not at all. finish_on() always reports it.
  bool allow_unused = false;
  Observer* observer = nullptr;  ///< receives the span "wait for gradients" on the track "compute"; must outlive this
};

/// Makes a training loop data-parallel: gradients are summed over the ranks of a group while backward still runs, so
/// that every rank can make the same update.
///
///   forward, backward, ready(i) for each gradient when it is complete → finish(weight) → update with sum ÷ Σ weight
///
/// finish() leaves plain sums. The program divides them once by the sum of the weights when it applies them, so ranks
/// may have different numbers of samples, or none. A DataParallel uses the group's `communicator()` and `control()`, so
/// a group has one DataParallel at a time.
///
/// Create it on the group's thread. Afterwards any thread may call `ready`, `progress`, `finish`, `finish_on`, `gather`
/// and `synchronize`, also concurrently, as threads do that run hooks during backward: the calls are serialized. The
/// program makes all other uses of the group before or after these calls. If another thread calls them, MPI must be
/// initialized with at least MPI_THREAD_SERIALIZED, as `World` does. Move-only.
class DataParallel {
 public:
  /// Allocates zeroed memory for values and gradients, where the group's operations are fastest. The program then
  /// writes `values()` and calls `synchronize()`. Collective.
  /// @param group  must outlive this object, or live until the next rebind()
  /// @throws Error{mismatch} on every rank, naming the ranks, if they differ in layout, dtype or bucket size;
  ///         Error{invalid_argument} if the bucket size is not positive, there are fewer shards than ranks, or `places`
  ///         is smaller than the number of sums; Error{unsupported} for `shards` if the group's method cannot add
  ///         the leaves of a tree (on GPUs, any but tree-order); what ProcessGroup::allocate throws
  DataParallel(ProcessGroup& group, Layout layout, DType dtype, const DataParallelOptions& options = {});
  /// Uses the program's own tensors and synchronizes their values at once. Collective.
  /// @throws also Error{invalid_argument} that names the parameter whose buffers do not match; Error{unsupported} for
  ///         `shard_optimizer` and `shards`
  /// @cost  gradients in the program's memory are copied once in `ready` and once in `finish`; gradients that
  ///        `Parameter` leaves empty are not copied
  DataParallel(ProcessGroup& group, std::vector<Parameter> parameters, const DataParallelOptions& options = {});
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;
  DataParallel(const DataParallel&) = delete;  // Pass it by reference, or move it.
  DataParallel(ProcessGroup&& /*Keep the group in a variable: it outlives this.*/, Layout, DType,
               const DataParallelOptions& = {}) = delete;
  DataParallel(ProcessGroup&& /*Keep the group in a variable: it outlives this.*/, std::vector<Parameter>,
               const DataParallelOptions& = {}) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  ~DataParallel();

  [[nodiscard]] const Layout& layout() const;
  /// The elements of a parameter, by its index in `layout()`.
  [[nodiscard]] Buffer value(int parameter) const;
  /// The elements of the parameter's gradient: the buffer that `ready` received last, or else the one that the
  /// constructor received, or else a part of the DataParallel's own memory.
  [[nodiscard]] Buffer gradient(int parameter) const;
  /// All elements of `layout()` as one buffer of the DataParallel's own memory.
  /// @throws Error{invalid_argument} if the DataParallel uses the program's tensors
  [[nodiscard]] Buffer values() const;
  [[nodiscard]] Buffer gradients() const;
  /// All `DataParallelOptions::places` gradient buffers, one after the other; `gradients()` is the first.
  [[nodiscard]] Buffer gradient_places() const;

  /// Broadcasts rank 0's values to all ranks, or compares the values, as the options say. Call it before the first
  /// step, and whenever values were written in another way than by an update that all ranks made. On a GPU, call it
  /// after the host has waited for these writes. Collective.
  /// @throws Error{mismatch} on every rank, naming the ranks whose values differ from rank 0's;
  ///         Error{transport | timeout}
  void synchronize();

  /// Marks the parameter's gradient as complete. Nobody may touch it until finish(), or on the queue until finish_on().
  /// Parameters may become ready in any order; buckets are reduced in the reverse order of the layout.
  /// @param queue  the queue on which the gradient is complete, the same in a whole step
  /// @throws Error{invalid_argument} that names the parameter if it was ready already, or if synchronize() was not
  ///         called, or if gradients in host memory are to be checked and the queue is a stream; Error{unsupported} on
  ///         another thread if MPI was not initialized for that; Error{transport | timeout}
  void ready(int parameter, Queue queue = Queue::host());
  /// Marks a gradient as complete that may have moved, such as that of a std::vector or of a tensor that the program
  /// replaces: the buffer passed is the one that is reduced. It becomes the parameter's gradient. finish() writes the
  /// sum to it, also in later steps in which the parameter is not made ready, until another call passes another buffer.
  /// @param gradient  has the parameter's number of elements and dtype; may be `gradient(parameter)`
  /// @throws also Error{invalid_argument} that names the parameter if the buffer is null, has another count or dtype,
  ///         or, with `shards` or `shard_optimizer`, is other memory than `gradient(parameter)`, and then nothing has
  ///         changed
  /// @cost  one copy here and one back in `finish`, unless the buffer is the DataParallel's own memory
  void ready(int parameter, const Buffer& gradient, Queue queue = Queue::host());
  /// Advances the operations that are under way, without waiting. Call it now and then during backward, unless a
  /// progress thread runs.
  void progress();

  /// Gradients with elements that are infinite or NaN.
  struct NotFinite {
    std::optional<int> rank;      ///< none: each rank's gradients are finite, but not their sums
    std::string host;             ///< host of the rank
    std::vector<int> parameters;  ///< indices of the parameters, ascending
  };
  /// The results of one finish(), the same on all ranks.
  struct Step {
    double weight = 0;                  ///< sum over ranks
    std::vector<int> unused;            ///< parameters that no rank made ready, ascending; their gradients are zero
    std::vector<NotFinite> not_finite;  ///< in the order of the ranks; filled if the options say so
  };
  /// Overwrites the gradients of `summed()` with their sums over the ranks, which have the same bits on all ranks. The
  /// contents of other gradients are unspecified afterwards. A parameter that this rank did not make ready contributes
  /// zeros, whatever its gradient contains. Collective.
  /// @param weight   this rank's weight, not negative; for instance its number of samples
  /// @param sums     more numbers to sum over ranks, for instance the loss; overwritten. Equally many on all ranks
  /// @throws Error{invalid_argument} for a weight that is negative or NaN, or if synchronize() was not called;
  ///         Error{mismatch} on every rank, after the reduction, if a comparison of
  ///         `DataParallelOptions::compare_every` fails: it names the first tensor whose values differ, the step, and
  ///         the ranks that differ from the majority (or, in a tie, from rank 0); Error{invalid_argument} on every
  ///         rank, after the reduction, that names the parameters that no rank made ready, or that a rank with a weight
  ///         above 0 left out and another rank did not, with the ranks, unless `allow_unused` is set or the sum of the
  ///         weights is 0; Error{transport | timeout | mismatch}
  /// @cost  one all-reduce of 8 bytes for each parameter and number, at the same time as the last buckets; then, if
  ///        gradients are checked and each rank has the sums of another part, one more of 8 bytes for each parameter
  Step finish(double weight, std::span<double> sums = {});

  /// Does the same as finish() in a step in which the host does not wait, and which a CUDA graph may contain: work that
  /// `queue` receives after this call finds the sums. All parameters must be ready. Only gradients are exchanged;
  /// weights and numbers that were accumulated under no_sync() are dropped. A failure is thrown by a later call. If the
  /// operations run on the host or `queue` is the host's, this call waits. Otherwise the host waits for the queue
  /// before this object is destroyed.
  ///
  /// To capture a step, capture the stream that its kernels and ready() use: call `finish_on` with the same stream,
  /// launch the update, then end the capture. docs/gpus.md lists the rules, and examples/cuda_step.cu is a complete
  /// example.
  /// @throws Error{invalid_argument} that names a parameter that is not ready, and can still be made ready;
  ///         Error{invalid_argument} if synchronize() was not called, no_sync() is in force, or gradients are to be
  ///         checked;
  ///         Error{transport | timeout | mismatch}, also of previous steps
  void finish_on(Queue queue);

  /// The parts of flat allocations that this rank updates, ascending and disjoint. With `shard_optimizer`, the parts of
  /// all ranks together are the layout, and no rank has more elements than rank 0. Without it, the only part is the
  /// whole layout. Valid until the next rebind(), which may change it.
  [[nodiscard]] const std::vector<LayoutPart>& owned() const;
  /// The parts whose gradients are summed on this rank: `owned()`, or the whole layout if there are shards.
  [[nodiscard]] const std::vector<LayoutPart>& summed() const;
  /// Overwrites the parts that other ranks own with their values: of `values()` after an update, or of any flat buffer
  /// of the layout that has one dtype on all ranks. Does nothing without `shard_optimizer`. Collective, between steps.
  /// @param queue  writes `flat` before, and reads it afterwards: the host waits for it only if it is the host's
  /// @throws Error{invalid_argument} for another count or within a step; Error{transport | timeout | mismatch}
  void gather(const Buffer& flat, Queue queue = Queue::host());

  /// While a NoSync exists, `ready` and `finish` communicate nothing. The program adds to its gradients, and weights,
  /// numbers and the set of ready parameters accumulate, until the first finish() after it reduces the gradients of all
  /// parameters that were ready since the last reduction. `finish` returns this rank's accumulated weight and leaves
  /// `sums` unchanged.
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
  /// `auto guard = parallel.no_sync(step % 4 != 3);` reduces the gradients of four backward passes together.
  /// @param on  false: the guard has no effect
  /// @pre no parameter is ready, unless a finish() has followed
  NoSync no_sync(bool on = true);
  /// Whether a NoSync is in force.
  [[nodiscard]] bool is_in_no_sync() const;

  /// Sets the number of the next step, which errors report. Each step adds one, and without this call the first step is
  /// number 1. A program that resumes from a checkpoint calls it. It changes nothing else.
  void number_steps_from(std::int64_t next);

  /// Moves shards between ranks: from the next step on, each rank has those of `shards`. Values are kept. Gradient
  /// buffers obtained before become invalid. Collective, between steps.
  /// @param places  number of gradient buffers from now on, as `DataParallelOptions::places`
  /// @throws as the constructors; Error{invalid_argument} within a step, or for another number of shards than before
  void move_shards(const LeafShares& shards, int places);

  /// Continues with another group, whose ranks have nearly equal shards, if any. Values are kept. Buffers obtained
  /// before become invalid, except for the program's own. If ranks with other values join, all ranks call synchronize()
  /// next. Collective over `group`, together with ranks that construct a DataParallel there. Call it between steps and,
  /// on a GPU, after the host has waited for all writes to values; or after a call has thrown an Error of its group, as
  /// when a rank has died (`World::run_elastic`). Then the step is forgotten, with all that was accumulated under
  /// no_sync(). The group before outlives this call.
  /// @throws as the constructors; Error{invalid_argument} within a step
  void rebind(ProcessGroup& group);

  /// The parts of the layout that are reduced together, in their order.
  [[nodiscard]] std::vector<LayoutPart> buckets() const;
  /// The sizes of the buckets, in the order in which they are reduced.
  [[nodiscard]] std::vector<Bytes> bucket_sizes() const;
  /// The time that this rank has spent waiting for gradients in `finish` or `finish_on`, and in `gather`, since
  /// construction.
  [[nodiscard]] double exposed_seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
