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

#include "lockstep/data/prefetcher.hpp"
#include "lockstep/trainer/metric.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/replica.hpp"
#include "lockstep/trainer/run_state.hpp"

namespace lockstep::trainer {

class Balance;
class Checkpoints;

/// How a file of weights and a model must fit.
enum class WeightsMatch {
  strict,   ///< both have the same tensors with the same extents
  partial,  ///< tensors that both have with the same extents are loaded; there must be one
};

/// What became of the tensors of a file of weights and of the model.
struct LoadedWeights {
  /// A tensor of the file, of the model, or of both.
  struct Tensor {
    std::string name;
    std::optional<std::vector<std::int64_t>> in_file;   ///< its extents there; none: the file lacks it
    std::optional<std::vector<std::int64_t>> in_model;  ///< its extents there; none: the model lacks it
    /// Its dtype in the file where that is none of real numbers, such as "BOOL [2, 3]" or "int64 [4]"; else empty.
    std::string not_real = {};
    /// Returns whether the model has the file's numbers now.
    [[nodiscard]] bool is_loaded() const { return in_model.has_value() && in_file == in_model && not_real.empty(); }
    /// Returns whether neither the model lacks it nor the file has weights in it.
    [[nodiscard]] bool is_needless() const { return !in_model && !not_real.empty(); }
  };
  std::vector<Tensor> tensors;  ///< on rank 0: those of the model in its order, then the others of the file
};

/// What a rank remembers of a run: its state after the last step, or evaluation, that this rank has completed.
struct RunMemory {
  RunState run;
  std::vector<std::vector<std::byte>> tensors;  ///< parameters, the optimizer's state, EMA weights
  Store::AllStatistics statistics;              ///< of all ranks
  int saves_heard = 0;                          ///< of the requests of `Trainer::save_on`
};

/// The training loop: epochs of steps, with evaluations between them.
class Trainer {
 public:
  /// Makes the replica and the input pipeline. Collective. All arguments except the data must outlive the trainer.
  /// @param listener, observer  may be null
  /// @throws Error{invalid_argument} on every rank, naming the invalid value; Error{mismatch} as Replica
  Trainer(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const data::DatasetPair& data,
          const TrainerOptions& options, Listener* listener = nullptr, Observer* observer = nullptr);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// Makes the run end early: once `request` is not 0 on any rank, all ranks end after the same step, or give up the
  /// evaluation that is under way. Whether and when other ranks call this does not matter.
  /// @param request  may be written at any time, by a signal handler too; outlives the trainer
  void stop_on(const std::atomic<int>& request) { stop_ = &request; }
  /// Makes the run end early, as `stop_on` does, once it is this time on any rank.
  void stop_at(Clock::time_point time) { stop_time_ = time; }
  /// Saves a checkpoint after the step in which `requests` grows on any rank, and goes on. Requests within a second
  /// after such a checkpoint count as the same, because a launcher passes a signal on to each rank in turn.
  /// @param requests  may be written at any time, by a signal handler too; outlives the trainer
  void save_on(const std::atomic<int>& requests) {
    save_requests_ = &requests;
    saves_heard_ = requests.load(std::memory_order_relaxed);
  }

  /// Saves checkpoints from now on, also at the end of run(). Collective.
  /// @throws Error{invalid_argument} on every rank for a negative interval, or if no checkpoint is to stay; Error{io}
  /// on
  ///         every rank if rank 0 cannot write into the folder
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
  /// @param path  of `model.safetensors` of a checkpoint, or a file of PyTorch's `model.state_dict()` with the same
  /// names
  /// @return on rank 0, what became of each tensor; nothing on the other ranks
  /// @throws Error{io} or Error{corrupt} on every rank if rank 0 cannot read the file; Error{corrupt} on every rank
  /// that
  ///         names a tensor that is not finite; Error{mismatch} on every rank, before anything is changed, that names
  ///         the tensors that do not fit
  LoadedWeights load_weights(const std::filesystem::path& path, WeightsMatch match = WeightsMatch::strict);

  /// From now on `memory` has what other ranks need to go on without this one, and this one without others. Collective.
  /// @throws Error{unsupported} on every rank with a sharded optimizer, of which each rank has a part that nobody else
  ///         has, and if operators compute in memory of a GPU
  /// @cost  of a model with running statistics, an all-gather of them in each step
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
  [[nodiscard]] bool is_saved() const { return is_saved_; }

  /// Trains to the end: all epochs, or `steps`, or until it is stopped or stops early. Collective.
  /// @throws Error{invalid_argument} on every rank if there is no metric of an option's name; Error{diverged} on every
  ///         rank, at the end of an epoch or before a checkpoint, that names a tensor that is not finite; as
  ///         Replica::step
  const RunState& run();
  /// Takes up to `most` steps and returns at the end of the epoch or when the run is stopped. Collective.
  /// @return the number of steps taken
  std::int64_t train_steps(std::int64_t most);
  /// Moves shards between ranks, as `TrainerOptions::balance` does, which changes no bit: each rank has those of
  /// `shards` from the next step on. Collective.
  /// @throws Error{invalid_argument} for another number of shards than `TrainerOptions::shards`, or of other ranks
  void move_shards(const LeafShares& shards);
  /// Evaluates the whole test set, each sample once. It averages the running statistics first. Collective.
  std::vector<observe::MetricValue> evaluate();
  /// Adds a metric to those of the model's losses, for all later evaluations. Every rank has to add the same ones.
  void add_metric(std::unique_ptr<Metric> metric);
  /// Whether the run ends before all steps are done, because of `TrainerOptions::early_stop`.
  [[nodiscard]] bool stops_early() const;
  /// The metrics of an evaluation, without values.
  [[nodiscard]] std::vector<observe::MetricValue> metrics() const;

  [[nodiscard]] std::int64_t steps_per_epoch() const { return batches_.sampler().steps(); }
  /// The number of steps of the whole run: all epochs, or `TrainerOptions::steps`.
  [[nodiscard]] std::int64_t total_steps() const;
  /// The number of epochs all of whose steps are done.
  [[nodiscard]] std::int64_t completed_epochs() const {
    return state_.step == steps_per_epoch() ? state_.epoch : state_.epoch - 1;
  }
  /// The progress and the results of the run.
  [[nodiscard]] const RunState& state() const { return state_; }

  /// This rank's copy of the model.
  [[nodiscard]] Replica& replica() { return replica_; }
  [[nodiscard]] const Replica& replica() const { return replica_; }

 private:
  observe::EpochEvent train_epoch();
  void check_metrics() const;
  /// @return whether it was the best evaluation so far
  bool evaluate_epoch(observe::EpochEvent& event);
  void save_after_step();
  void save_after_epoch(bool is_best);
  void start_saving(bool is_best);
  void require_finite();
  void take_over(RunState run);
  void complete();
  [[nodiscard]] std::vector<Buffer> tensors() const;
  [[nodiscard]] std::size_t best_metric() const;
  std::optional<std::vector<observe::MetricValue>> evaluate(std::int64_t epoch, bool may_stop);
  [[nodiscard]] std::int64_t next_step() const;
  void submit(const data::Batch& batch);
  [[nodiscard]] bool must_catch_up() const;
  void finish_step(Clock::time_point& begin);
  void report_step();
  void agree_on_requests();
  void report_stragglers();
  void balance(double step_seconds);
  [[nodiscard]] bool wants_straggler_report() const;
  [[nodiscard]] int wants_to_stop() const;
  [[nodiscard]] bool wants_to_save();
  [[nodiscard]] bool all_steps_done() const { return state_.global_step >= total_steps(); }
  void begin_next_epoch();

  /// Times of this rank at a point of the run, in seconds.
  struct Times {
    double run = 0;
    double data = 0;
    double wait = 0;
  };
  [[nodiscard]] Times times() const;
  [[nodiscard]] std::vector<observe::SlowRank> slow_ranks_since(const Times& before, std::int64_t steps);
  /// The reports of stragglers within an epoch.
  struct StragglerWatch {
    Times before;                  // at the last report
    std::int64_t global_step = 0;  // of the last report
    Clock::time_point reported;    // when that was
    bool is_due = false;           // all ranks have agreed to report
  };

  ProcessGroup* group_;
  data::DatasetPair data_;
  TrainerOptions options_;
  Listener* listener_;
  const std::atomic<int>* stop_ = nullptr;
  Clock::time_point stop_time_ = Clock::time_point::max();
  const std::atomic<int>* save_requests_ = nullptr;
  int saves_heard_ = 0;                  // of the requests, those that are done or count as done
  Clock::time_point same_save_until_{};  // until then requests count as the same
  bool save_is_due_ = false;             // all ranks have agreed to save
  Replica replica_;
  data::Prefetcher batches_;
  data::Prefetcher test_batches_;

  std::vector<std::unique_ptr<Metric>> metrics_;
  std::unique_ptr<Checkpoints> checkpoints_;
  RunState state_;
  bool is_saved_ = true;
  std::int64_t finite_step_ = -1;  // after it, all numbers were found to be finite
  RunState completed_;             // the state to go on from, if ranks die
  bool entered_ = false;           // whether the prefetcher has started this epoch
  double window_seconds_ = 0;      // training time since the last report
  std::int64_t window_samples_ = 0;
  double run_seconds_ = 0;  // training time since construction
  std::int64_t run_samples_ = 0;
  StragglerWatch stragglers_;
  std::unique_ptr<Balance> balance_;
  double waited_before_step_ = 0;  // for other ranks
};

}  // namespace lockstep::trainer
