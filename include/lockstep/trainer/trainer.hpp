// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/leaves.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/metric.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/run_state.hpp"

namespace lockstep::trainer {

class Continuation;
class Evaluator;
class Replica;
class Requests;
class Saver;
class ShardMoves;
class StragglerReports;
struct TrainingRun;

/// The training loop: epochs of steps, with evaluations between them.
class Trainer {
 public:
  /// Makes the replica and the input pipeline. Collective. All arguments except the data must outlive the trainer.
  /// @param listener, observer  may be null
  /// @throws Error{invalid_argument} on every rank, naming the invalid value; Error{mismatch} on every rank if the
  ///         ranks' models, buckets or kernels differ, or their initial values if these are compared
  Trainer(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const data::DatasetPair& data,
          const TrainerOptions& options, Listener* listener = nullptr, Observer* observer = nullptr);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// Makes the run end early: once `request` is not 0 on any rank, all ranks end after the same step, or give up the
  /// evaluation that is under way. Whether and when other ranks call this does not matter.
  /// @param request  may be written at any time, by a signal handler too; outlives the trainer
  void stop_on(const std::atomic<int>& request);
  /// Makes the run end early, as `stop_on` does, once it is this time on any rank.
  void stop_at(Clock::time_point time);
  /// Saves a checkpoint after the step in which `requests` grows on any rank, and goes on. Requests within a second
  /// after such a checkpoint count as the same, because a launcher passes a signal on to each rank in turn.
  /// @param requests  may be written at any time, by a signal handler too; outlives the trainer
  void save_on(const std::atomic<int>& requests);

  /// Saves checkpoints from now on, also at the end of run(). Collective.
  /// @throws Error{invalid_argument} on every rank for a negative interval, or if no checkpoint is to stay;
  ///         Error{io} on every rank if rank 0 cannot write into the folder
  void save_checkpoints(CheckpointOptions options);
  /// Saves a checkpoint now, and waits until it is complete. Trouble with files is an event. Collective.
  /// @throws Error{diverged} on every rank that names a tensor that is not finite @pre save_checkpoints() was called
  void save();
  /// What resume() has found.
  struct Resumed {
    std::filesystem::path path;        ///< of the checkpoint, on rank 0; empty: there is none
    std::vector<std::string> refused;  ///< on rank 0: why newer checkpoints were refused
    /// Number of its kernel choices that do not bind this run, because they are another compute library's.
    std::size_t foreign_kernel_choices = 0;
    /// The texts of its `state.json`, by section and name, with those of `CheckpointOptions::notes`.
    std::map<std::string, std::map<std::string, std::string>> notes;
  };
  /// Continues from a checkpoint, which rank 0 reads: weights, optimizer, running statistics, the position in the epoch
  /// and all results so far. Values that a checkpoint does not hold, such as learning rates and the number of epochs,
  /// are those of this run. Collective.
  /// @param wish    "last", "best" or "auto" (the newest good one, if there is one, also of the fallback folder) of the
  ///         folder; or the path of a checkpoint or of another run
  /// @throws Error{io} or Error{corrupt} on every rank if it cannot be read; Error{unsupported} on every rank if it has
  ///         the form of another version of lockstep; Error{mismatch} on every rank, before anything is changed, that
  ///         names the ranks whose model, precision, data, batch or seed are not those of the checkpoint, and all that
  ///         differ with both values
  Resumed resume(const std::string& wish, const std::filesystem::path& folder = {});

  /// Overwrites the parameters and running statistics with the tensors of a file in the format safetensors, which rank
  /// 0 reads. EMA weights begin with the new parameters. Real numbers of another dtype are converted, and tensors
  /// "num_batches_tracked", which PyTorch adds, are ignored. Call it before the first step. Collective.
  /// @param path  of `model.safetensors` of a checkpoint, or a file of PyTorch's `model.state_dict()` with the
  ///              same names
  /// @return on rank 0, what became of each tensor; nothing on the other ranks
  /// @throws Error{io} or Error{corrupt} on every rank if rank 0 cannot read the file; Error{corrupt} on every rank
  ///         that names a tensor that is not finite; Error{mismatch} on every rank, before anything is changed, that
  ///         names the tensors that do not fit
  LoadedWeights load_weights(const std::filesystem::path& path, WeightsMatch match = WeightsMatch::strict);

  /// From now on `memory` has what other ranks need to go on without this one, and this one without others. Collective.
  /// @throws Error{unsupported} on every rank with a sharded optimizer, of which each rank has a part that nobody else
  ///         has
  /// @cost  of a model with running statistics, an all-gather of them in each step; on a GPU also a copy of weights,
  ///        optimizer state and averages in each step, memory for it, and no step is submitted before the one before is
  ///        finished
  void remember();
  /// Returns the state of this rank after what it has completed, also after run() has thrown an Error. It waits for the
  /// checkpoint that is being written. @pre remember() was called. Not collective.
  [[nodiscard]] RunMemory memory();
  /// Goes on from the memory of a rank that has completed the most, among those of this group, and remembers again. A
  /// checkpoint that is due after that step is saved, because it may not have been. Collective.
  /// @param own  from a trainer of the same run on this rank, with another group of any number of ranks
  void go_on_from(const RunMemory& own);

  /// Whether, after run(), a checkpoint has the state at its end; true without save_checkpoints(). The same on all
  /// ranks.
  [[nodiscard]] bool is_saved() const;

  /// Trains to the end: all epochs, or `steps`, or until it is stopped or stops early. Collective.
  /// @throws Error{invalid_argument} on every rank if there is no metric of an option's name; Error{diverged} on every
  ///         rank, at the end of an epoch or before a checkpoint, that names a tensor that is not finite;
  ///         Error{diverged} on every rank that names the ranks and tensors whose gradients are not finite, unless a
  ///         loss scale could be at fault, or the ranks whose loss is not; Error{invalid_argument} on every rank that
  ///         names the ranks, samples and values of data that an operator cannot take; Error{transport | timeout |
  ///         mismatch}
  const RunState& run();
  /// Takes up to `most` steps and returns at the end of the epoch or when the run is stopped. Collective. On GPUs, the
  /// group can be closed after it only when the trainer is destroyed, or replica().drop_captured_steps() was called.
  /// @return the number of steps taken
  std::int64_t train_steps(std::int64_t most);
  /// Moves shards between ranks, as `TrainerOptions::balance` does, which changes no bit: each rank has those of
  /// `shards` from the next step on. Collective.
  /// @throws Error{invalid_argument} for another number of shards than `TrainerOptions::shards`, or of other ranks
  void move_shards(const LeafShares& shards);
  /// Evaluates the whole test set, each sample once. It averages the running statistics first. Collective.
  std::vector<observe::MetricValue> evaluate();
  /// The counts of each class in the last evaluation; null if nothing was evaluated, or no metric counts classes.
  [[nodiscard]] const observe::ClassCounts* classes() const;
  /// Adds a metric to those of `TrainerOptions::metrics`, for all later evaluations. Every rank has to add the same
  /// ones.
  void add_metric(std::unique_ptr<Metric> metric);
  /// Whether the run ends before all steps are done, because of `TrainerOptions::early_stop`.
  [[nodiscard]] bool stops_early() const;
  /// The metrics of an evaluation, without values.
  [[nodiscard]] std::vector<observe::MetricValue> metrics() const;

  [[nodiscard]] std::int64_t steps_per_epoch() const;
  /// The number of steps of the whole run: all epochs, or `TrainerOptions::steps`.
  [[nodiscard]] std::int64_t total_steps() const;
  /// The number of epochs all of whose steps are done.
  [[nodiscard]] std::int64_t completed_epochs() const;
  /// The progress and the results of the run.
  [[nodiscard]] const RunState& state() const;

  /// This rank's copy of the model.
  [[nodiscard]] Replica& replica();
  [[nodiscard]] const Replica& replica() const;

 private:
  void begin_next_epoch();
  observe::EpochEvent train_epoch();
  bool evaluate_epoch(observe::EpochEvent& event);
  [[nodiscard]] bool is_at_end() const;
  void submit(const data::Batch& batch);
  [[nodiscard]] bool must_catch_up() const;
  void finish_step(Clock::time_point& begin);
  void report_step(std::size_t extents);
  void agree_on_requests();

  std::unique_ptr<TrainingRun> run_;  // what the loop and the objects beside it share
  std::unique_ptr<Requests> requests_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Continuation> continuation_;
  std::unique_ptr<ShardMoves> shard_moves_;
  std::unique_ptr<StragglerReports> stragglers_;
  /// What has happened since the last step event, or since the epoch began.
  struct Window {
    std::int64_t steps = 0;
    std::int64_t samples = 0;
    double seconds = 0;
    double waited = 0;   // `Prefetcher::waited_seconds` at its beginning
    double exposed = 0;  // `DataParallel::exposed_seconds` at its beginning
  };
  [[nodiscard]] Window begin_window() const;
  Window window_;
};

}  // namespace lockstep::trainer
