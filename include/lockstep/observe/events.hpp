// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/types.hpp"

/// The events of a training run as values, for the metrics file and the display.
namespace lockstep::observe {

/// A number that tells how good a model is.
struct MetricValue {
  std::string name;             ///< as users know it: "loss", "accuracy"
  std::optional<double> value;  ///< empty: not evaluated
  bool higher_is_better = false;
  bool is_fraction = false;  ///< from 0 to 1, and shown in percent
  bool in_table = true;      ///< whether the table of epochs has a column for it

  /// Returns whether this value is better than another one, or the only one. NaN is worse than any number.
  [[nodiscard]] bool is_better_than(const std::optional<double>& other) const;
  /// Returns "98.71 %", "0.0312", or "-" without a value.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const MetricValue&, const MetricValue&) = default;
};
/// Returns the value of the metric with this name; empty if there is none.
std::optional<double> value_of(std::span<const MetricValue> metrics, std::string_view name);

/// A value of each class, such as its average precision.
struct ClassValues {
  std::string name;
  std::vector<std::optional<double>> values;  ///< by class, from 0 to 1; empty where there is none
};

/// How often the samples of each class were taken for which class in an evaluation, over all ranks. For a detector
/// samples are boxes, predictions are its detections, and hits the boxes that it has found.
struct ClassCounts {
  std::vector<std::string> names;         ///< of the classes; empty: they have numbers only
  std::vector<std::int64_t> labels;       ///< by class: samples of it
  std::vector<std::int64_t> predictions;  ///< by class: samples that were taken for it
  std::vector<std::int64_t> hits;         ///< by class: samples of it that were taken for it
  /// By label and prediction, classes × classes: the confusion matrix. Empty for very many classes.
  std::vector<std::int64_t> confusion;
  std::vector<std::int64_t> images = {};  ///< by class: images with boxes of it; empty: samples are no boxes
  std::vector<ClassValues> values = {};   ///< more about each class

  /// Returns the name of a class, or its number.
  [[nodiscard]] std::string name_of(std::size_t label) const;
  /// Returns hits ÷ labels; nothing if there is no sample of the class.
  [[nodiscard]] std::optional<double> recall(std::size_t label) const;
  /// Returns hits ÷ predictions; nothing if no sample was taken for the class.
  [[nodiscard]] std::optional<double> precision(std::size_t label) const;
  /// Returns the harmonic mean of recall and precision, 2·hits ÷ (labels + predictions); nothing if the class occurs
  /// neither as label nor as prediction.
  [[nodiscard]] std::optional<double> f1(std::size_t label) const;
  /// Returns hits ÷ (labels + predictions − hits), intersection over union; nothing as `f1`.
  [[nodiscard]] std::optional<double> iou(std::size_t label) const;
  /// Returns the mean F1 of the classes that have one, as scikit-learn's `f1_score(average="macro")`; 0 if none has.
  [[nodiscard]] double macro_f1() const;
  /// Returns the mean intersection over union of the classes that have one; 0 if none has.
  [[nodiscard]] double mean_iou() const;
};

/// Emitted once, before the first step: model, data, options and hosts.
struct StartEvent {
  std::string version;
  std::string model;
  std::string dataset;
  std::string algorithm;  ///< algorithm of the all-reduce
  std::string compress;   ///< wire format of gradients: "none", "bf16", "fp16"
  std::string device;
  std::string ops;
  std::string precision;
  std::string kernel_choices;  ///< hash of the measured kernel choices; empty: the back end's rule
  std::string emulation;       ///< how much of the precision is emulated, and why; empty if nothing is
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;
  Count batch;                     ///< global batch over all ranks
  std::vector<std::string> hosts;  ///< host of each rank
  std::int64_t step = 0;           ///< steps of the run before this start of the program
};

/// Emitted after every step: the progress of the run.
struct ProgressEvent {
  std::int64_t epoch = 0;                    ///< from 1
  std::int64_t step = 0;                     ///< step of the epoch, from 1
  double loss = 0;                           ///< mean over the samples of all ranks
  std::int64_t images = 0;                   ///< samples trained on in this run so far, over all ranks
  double seconds = 0;                        ///< training time of this run so far, without evaluations
  double data_wait_seconds = 0;              ///< of it, time that rank 0 waited for batches
  double exposed_communication_seconds = 0;  ///< of it, time that rank 0 waited for all-reduces after backward
};

/// Emitted after every batch of an evaluation: the progress of the evaluation.
struct EvaluationEvent {
  std::int64_t epoch = 0;    ///< epoch that is evaluated
  std::int64_t batch = 0;    ///< batch that has just ended, from 1
  std::int64_t batches = 0;  ///< number of batches in the whole evaluation
};

/// Emitted at regular intervals of steps: the step that has just ended.
struct StepEvent {
  std::int64_t epoch = 0;        ///< from 1
  std::int64_t step = 0;         ///< step of the run, from 1
  double loss = 0;               ///< mean over the samples of all ranks
  double learning_rate = 0;      ///< rate of this step's update
  double images_per_second = 0;  ///< throughput over all ranks
  // Since the last event of this kind, or since the epoch began:
  std::int64_t steps = 1;                    ///< number of steps
  double seconds = 0;                        ///< time of these steps
  double data_wait_seconds = 0;              ///< of it, time that rank 0 waited for batches
  double exposed_communication_seconds = 0;  ///< of it, time that rank 0 waited for all-reduces after backward
  /// Height and width of the model's input in the step that has just ended, if steps differ in them.
  std::optional<std::array<std::int64_t, 2>> img = {};
};

/// A rank that the others wait for. Times are means of a step.
struct SlowRank {
  int rank = 0;
  std::string host;
  std::string cause;           ///< "data" if it waits for its batches longer than usual, or "compute"
  double seconds = 0;          ///< its time for the cause
  double usual_seconds = 0;    ///< the median of all ranks' times for the cause
  double data_seconds = 0;     ///< time until its batches were there
  double compute_seconds = 0;  ///< its other time in which it did not wait for other ranks; 0 on GPUs
  double wait_seconds = 0;     ///< time in which it waited for other ranks, and for its device
  bool is_straggler = false;   ///< whether it takes longer than usual by at least a twentieth of the step
};

/// Emitted from time to time if `TrainerOptions::straggler_seconds` is set: the slowest ranks since the last time.
struct StragglerEvent {
  std::int64_t epoch = 0;
  std::int64_t step = 0;        ///< step of the run, from 1
  std::int64_t steps = 0;       ///< number of steps since the last event of this kind, or since the epoch began
  std::vector<SlowRank> ranks;  ///< the slowest one first, and then all others that are stragglers
};

/// Emitted when shards have moved between ranks, between this step and the next.
struct BalanceEvent {
  std::int64_t epoch = 0;
  std::int64_t step = 0;    ///< step of the run, from 1
  std::vector<int> shards;  ///< number of shards of each rank from now on
};

/// Emitted after an epoch, and after its evaluation if it has one.
struct EpochEvent {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< step of the run
  double train_loss = 0;
  std::vector<MetricValue> metrics;          ///< without values if the epoch was not evaluated
  double seconds = 0;                        ///< training time, without evaluation
  double images_per_second = 0;              ///< training throughput over all ranks
  double exposed_communication_seconds = 0;  ///< time that rank 0 waited for all-reduces after backward
  double data_wait_seconds = 0;              ///< time that rank 0 waited for batches
  double evaluation_seconds = 0;             ///< 0 if the epoch was not evaluated
  /// The slowest rank of several, and then all others that are stragglers.
  std::vector<SlowRank> slow_ranks = {};
  std::vector<int> shards = {};  ///< number of shards of each rank at the end of the epoch, if shards move
};

/// Returns the part of an event's training time in which rank 0 waited neither for batches nor for all-reduces.
template <typename Event>
double compute_seconds(const Event& event) {
  const double rest = event.seconds - event.data_wait_seconds - event.exposed_communication_seconds;
  return rest > 0 ? rest : 0;
}

/// Emitted once by a program that evaluates without training.
struct ResultEvent {
  std::vector<MetricValue> metrics;
  std::int64_t samples = 0;  ///< samples that were evaluated
  double seconds = 0;
};

/// Emitted with the counts of the last evaluation, if they are asked for.
struct ClassesEvent {
  std::int64_t step = 0;  ///< step of the run
  ClassCounts counts;
};

/// Emitted with a picture that shows what a model has found.
struct PictureEvent {
  std::int64_t step = 0;  ///< step of the run
  std::string tag;        ///< "val/predictions"
  int width = 0;
  int height = 0;
  std::vector<std::byte> png;  ///< encoded
};

/// A rank whose process has ended, by its number and host at the start of the job.
struct DeadRank {
  int rank = 0;
  std::string host;
};

/// Emitted when a run has gone on in place after the death of ranks.
struct RecoveryEvent {
  std::int64_t number = 0;      ///< from 1: how often this start has gone on
  std::int64_t step = 0;        ///< step of the run after which it goes on
  std::vector<DeadRank> ranks;  ///< those that have died
  std::int64_t left = 0;        ///< number of ranks that go on
  double seconds = 0;           ///< from when rank 0 noticed the death until training goes on
};

/// Emitted when a checkpoint is complete, or could not be written.
struct CheckpointEvent {
  std::int64_t epoch = 0;
  std::int64_t step = 0;         ///< step of the run
  std::string path;              ///< empty if it could not be written
  std::int64_t bytes = 0;        ///< size of its files of tensors
  double stall_seconds = 0;      ///< time in which training waited for it
  double write_seconds = 0;      ///< time of writing, while training went on
  std::string error;             ///< what could not be written: it, or without an empty `path` only a link to it
  bool tries_elsewhere = false;  ///< after an error: the fallback folder gets it next, which is another event
};

/// Emitted once, at the end of the run, whatever ended it.
struct EndEvent {
  /// "completed" if all epochs or steps were trained, "early-stopped" if a metric became no better, "stopped" by a
  /// signal or the end of its time, or "failed"
  std::string outcome;
  std::string signal;               ///< signal that stopped the run, e.g. "SIGTERM"; empty if none did
  std::string error;                ///< why the run failed; empty if it did not
  std::int64_t epochs = 0;          ///< completed epochs
  std::int64_t steps = 0;           ///< steps of the run, those before it was resumed included
  std::int64_t steps_of_start = 0;  ///< steps since the program's start, in `seconds`
  double seconds = 0;
  std::vector<MetricValue> best;     ///< best value of each metric; without values if nothing was evaluated
  std::vector<MetricValue> last;     ///< of the last weights; without values if these were not evaluated
  std::int64_t evaluated_step = 0;   ///< step of the run after which it was evaluated last; 0: it was not
  std::int64_t skipped_updates = 0;  ///< steps whose gradients a loss scale had made infinite
  std::int64_t optimizer_bytes = 0;  ///< momentum buffer and EMA weights, on the rank with most of them
  std::string weights_sha256;        ///< hash of the last weights; empty if the run failed
};

}  // namespace lockstep::observe
