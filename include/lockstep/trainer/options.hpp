// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/tensor_spec.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/nn/learning_rate.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/observe/events.hpp"
#include "lockstep/ops/step.hpp"

namespace lockstep::trainer {

class Metric;

/// Makes the metrics of a model for batches with these tensors.
using MetricFactory =
    std::function<std::vector<std::unique_ptr<Metric>>(const nn::Graph&, const std::vector<TensorSpec>&)>;

/// Makes the graph of a model for batches with these tensors.
using GraphFactory = std::function<nn::Graph(const std::vector<TensorSpec>&)>;

/// Early stopping: the run ends, completed, when a metric has not become better in `patience` evaluations in a row.
struct EarlyStop {
  std::string metric;
  std::int64_t patience = 0;  ///< 0: the run does not end early
};

/// The options of a run. They must be the same on all ranks.
struct TrainerOptions {
  /// The dtype of weights, their gradients and the optimizer's state; operators may compute in a lower precision.
  DType precision = DType::float32;
  std::int64_t epochs = 1;
  std::int64_t steps = 0;             ///< ends the run after this many steps; 0: after all epochs
  Count batch{128};                   ///< global batch: samples of a step over all ranks
  bool drop_last = false;             ///< leaves out the last batch of an epoch if it is smaller
  bool evaluates_only = false;        ///< no step is taken, so the batch may be larger than the data set
  nn::LearningRateSchedule schedule;  ///< learning rate over all steps of the run
  nn::OptimizerOptions optimizer;
  /// Adds up the gradients of as many steps as make about this many samples before the weights are updated
  /// (`nn::AccumulationSchedule`), for which the optimizer's weight decay is meant: it is multiplied by the samples of
  /// an update ÷ this. 0: each step updates the weights, and weight decay is as given.
  std::int64_t nominal_batch = 0;
  bool sync_batch_norm = false;  ///< batch norm with statistics of the global batch instead of each rank or shard
  ops::StepOptions step;         ///< `step.shards` must be 0 or at least the number of ranks
  /// Whether shards move from slow ranks to fast ones between steps, by the times that ranks take for theirs. This
  /// changes no bit. Each rank keeps at least one shard.
  bool balance = false;
  /// Shards the optimizer: each rank updates a part of the weights and holds the momentum buffer and EMA weights of
  /// that part only (ZeRO stage 1).
  bool zero = false;
  nn::OptimizationPasses passes;
  std::uint64_t seed = 1;  ///< seed of initialization and shuffling
  InitialValues initial = InitialValues::broadcast;
  /// A text that tells this data set from others, which a checkpoint must have; empty: not compared.
  std::string data_fingerprint = {};
  /// Another text for the same data, which a checkpoint of an older version may have instead.
  std::string older_data_fingerprint = {};
  /// Tells models of one name apart that have the same tensors, as " with the stem of cifar"; a checkpoint must have
  /// the same one.
  std::string model_variant = {};
  int workers = 1;                   ///< threads of each rank that prepare batches
  Bytes bucket{4 << 20};             ///< size of a gradient bucket
  std::int64_t compare_every = 100;  ///< steps from one comparison of the ranks' weights to the next; 0: never
  std::int64_t log_every = 50;       ///< steps from one step event to the next
  /// Epochs from one evaluation to the next; the end of the run is evaluated as well. 0: nothing is evaluated.
  std::int64_t eval_interval = 1;
  /// Makes the graphs for other extents of training steps and evaluations (`data::extents_of`), which must be the same
  /// model: it has the same parameters for all of them. Empty: all have the extents of the trainer's graph.
  GraphFactory graphs = {};
  MetricFactory metrics = {};  ///< makes the metrics of evaluations; empty: `loss_metrics`
  /// The metric whose best evaluation is the best checkpoint; empty: the usual one.
  std::string best_metric;
  /// The usual one, for models that have it; for others "accuracy", or "loss" for models without it.
  std::string usual_best_metric = {};
  EarlyStop early_stop;
  /// Seconds from one report of slow ranks within an epoch to the next, by rank 0's clock; 0: only after each epoch.
  double straggler_seconds = 0;
};

/// When and where a run saves checkpoints. docs/checkpoints.md describes the files.
struct CheckpointOptions {
  std::filesystem::path folder;  ///< the folder of the run; rank 0 writes into its folder `checkpoints`
  /// Folder of a run, on another file system for instance, that gets a checkpoint if `folder` cannot; empty: none.
  std::filesystem::path fallback = {};
  std::int64_t epochs = 1;  ///< epochs from one checkpoint to the next; 0: none because of epochs. The end has one, too
  std::int64_t steps = 0;   ///< steps from one checkpoint to the next; 0: none because of steps
  int keep = 3;             ///< number of newest checkpoints that stay, beside the best one
  /// More texts for `state.json`, by section and name.
  std::map<std::string, std::map<std::string, std::string>> notes = {};
  /// Texts in UTF-8 for the metadata of `model.safetensors`, by name; the same on all ranks.
  std::map<std::string, std::string> metadata = {};
};

/// Receives the events of a run, and ignores those that a derived class does not. A rank may have a listener or none;
/// values that concern all ranks are equal on each.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Called after every step. It runs between steps, so it should take no more than microseconds.
  virtual void progress(const observe::ProgressEvent& /*event*/) {}
  /// Called after every `log_every`th step.
  virtual void step(const observe::StepEvent& /*event*/) {}
  /// Called about every `straggler_seconds`.
  virtual void stragglers(const observe::StragglerEvent& /*event*/) {}
  /// Called when shards have moved between ranks.
  virtual void balance(const observe::BalanceEvent& /*event*/) {}
  /// Called after every batch of an evaluation.
  virtual void evaluation(const observe::EvaluationEvent& /*event*/) {}
  /// Called after an epoch, and after its evaluation if it has one.
  virtual void epoch(const observe::EpochEvent& /*event*/) {}
  /// Called on rank 0 when a checkpoint is complete, or could not be written.
  virtual void checkpoint(const observe::CheckpointEvent& /*event*/) {}
};

}  // namespace lockstep::trainer
