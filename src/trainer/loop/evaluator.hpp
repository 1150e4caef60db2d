// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/trainer/metric.hpp"
#include "trainer/loop/requests.hpp"
#include "trainer/loop/training_run.hpp"

namespace lockstep::trainer {

using MetricValues = std::vector<observe::MetricValue>;

/// Returns the index of a metric, or their number if there is none of this name.
std::size_t index_of(const MetricValues& metrics, const std::string& name);

/// Evaluates the test set by metrics, and judges from the results which evaluation is the best and when a run stops
/// early.
class Evaluator {
 public:
  /// Begins with the metrics of the model's losses, and prepares the replica for all batches of this rank.
  /// @param run  outlives this
  explicit Evaluator(TrainingRun& run);

  void add_metric(std::unique_ptr<Metric> metric);
  /// The metrics of an evaluation, without values.
  [[nodiscard]] MetricValues metrics() const;
  /// The counts of each class in the last evaluation; null if there are none.
  [[nodiscard]] const observe::ClassCounts* classes() const;
  /// @throws Error{invalid_argument} on every rank if there is no metric of an option's name
  void check_options() const;
  void move_shards(const LeafShares& shards) { batches_.move_shards(shards); }

  /// Evaluates the whole test set. Collective.
  /// @param epoch     for events
  /// @param requests  null: the evaluation is not given up
  /// @return nothing if a rank wants to stop, which all ranks learn together with the sums
  std::optional<MetricValues> evaluate(std::int64_t epoch, const Requests* requests);
  /// Whether the end of this epoch, or of the run, is evaluated.
  [[nodiscard]] bool is_due(std::int64_t epoch) const;
  /// Makes an evaluation the last one of the run. Rank 0 decides whether it is the best one, so that all ranks save and
  /// stop together even if a metric rounds differently somewhere. Collective.
  /// @return whether it is the best one
  bool record(const MetricValues& evaluation);
  /// Whether the last evaluation was the best one.
  [[nodiscard]] bool last_is_best() const;
  /// Whether the run ends before all steps are done.
  [[nodiscard]] bool stops_early() const;

 private:
  void prepare();
  void predict(const data::Batch& batch);
  [[nodiscard]] std::size_t best_metric() const;

  TrainingRun* run_;
  data::Prefetcher batches_;
  std::vector<std::unique_ptr<Metric>> metrics_;
};

}  // namespace lockstep::trainer
