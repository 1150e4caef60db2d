// SPDX-License-Identifier: Apache-2.0
// The trainer's metrics and evaluations.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/trainer_parts.hpp"

namespace lockstep::trainer {
namespace {

bool is_there(const std::vector<observe::MetricValue>& metrics, const std::string& name) {
  return index_of(metrics, name) < metrics.size();
}

/// A part of this rank's share of a batch, as a view.
class PartOfBatch {
 public:
  PartOfBatch(const data::Batch& batch, const Share& range) : part_(batch) {
    const std::int64_t offset = range.first - batch.first;
    for (const Buffer& tensor : batch.tensors) {
      const std::int64_t each = batch.samples.value == 0 ? 0 : tensor.count.value / batch.samples.value;
      tensors_.push_back(slice(tensor, {offset * each}, {range.count * each}));
    }
    part_.samples = {range.count};
    part_.first = range.first;
    part_.ids = batch.ids.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(range.count));
    part_.tensors = tensors_;
  }
  PartOfBatch(const PartOfBatch&) = delete;
  PartOfBatch& operator=(const PartOfBatch&) = delete;
  ~PartOfBatch() = default;
  [[nodiscard]] const data::Batch& batch() const { return part_; }

 private:
  std::vector<Buffer> tensors_;
  data::Batch part_;
};

}  // namespace

std::vector<Share> predicted_parts(std::int64_t step_samples, const ProcessGroup& group, const LeafShares& shards) {
  const bool has_shards = shards.total() > 0;
  const std::int64_t parts = has_shards ? shards.total() : group.size();
  const Share own = has_shards ? shards.of(group.rank().value, group.size()) : Share{group.rank().value, 1};
  std::vector<Share> ranges;
  for (std::int64_t part = own.first; part < own.end(); ++part) {
    const Share range = share_of(step_samples, part, parts);
    if (range.count > 0 || !has_shards) ranges.push_back(range);
  }
  return ranges;
}

void Trainer::add_metric(std::unique_ptr<Metric> metric) {
  for (observe::MetricValue& value : metric->values()) {
    require(!is_there(state_.best, value.name), "there is a metric '" + value.name + "' already: give it another name",
            *group_);
    value.value.reset();
    state_.evaluation.push_back(value);
    state_.best.push_back(std::move(value));
    state_.evaluations_since_best.push_back(0);
  }
  metrics_.push_back(std::move(metric));
}

std::vector<observe::MetricValue> Trainer::metrics() const {
  std::vector<observe::MetricValue> metrics = state_.evaluation;
  for (observe::MetricValue& metric : metrics) metric.value.reset();
  return metrics;
}

void Trainer::check_metrics() const {
  const EarlyStop& stop = options_.early_stop;
  require(stop.patience >= 0, "a patience of " + std::to_string(stop.patience) + ": it cannot be negative", *group_);
  std::vector<std::string_view> names;
  for (const observe::MetricValue& metric : state_.best) names.push_back(metric.name);
  for (const std::string& name : {options_.best_metric, stop.patience > 0 ? stop.metric : ""})
    require(name.empty() || is_there(state_.best, name), unknown("metric", name, names), *group_);
  require(stop.patience == 0 || !stop.metric.empty(), "early stopping needs the name of a metric", *group_);
}

bool Trainer::stops_early() const {
  const std::size_t metric = index_of(state_.best, options_.early_stop.metric);
  return options_.early_stop.patience > 0 && metric < state_.best.size() && !all_steps_done() &&
         state_.evaluations_since_best[metric] >= options_.early_stop.patience;
}

/// Evaluates the model if it is due after this epoch or at the end of the run.
bool Trainer::evaluate_epoch(observe::EpochEvent& event) {
  if (options_.eval_interval == 0) return false;
  if (event.epoch % options_.eval_interval != 0 && !all_steps_done()) return false;
  const Clock::time_point begin = Clock::now();
  const auto evaluation = evaluate(event.epoch, true);
  if (!evaluation) return false;
  event.metrics = state_.evaluation = *evaluation;
  state_.evaluated_step = state_.global_step;
  event.evaluation_seconds = seconds_since(begin);
  // Rank 0 decides, so that all ranks save and stop together even if a metric rounds differently somewhere.
  std::vector<std::uint8_t> is_better(state_.best.size());
  for (std::size_t i = 0; i < is_better.size(); ++i)
    is_better[i] = state_.evaluation[i].is_better_than(state_.best[i].value) ? 1 : 0;
  group_->control().broadcast(std::span(is_better), {0}, Queue::host(), "best metrics").wait();
  for (std::size_t i = 0; i < is_better.size(); ++i) {
    ++state_.evaluations_since_best[i];
    if (is_better[i] == 0) continue;
    state_.best[i] = state_.evaluation[i];
    state_.evaluations_since_best[i] = 0;
  }
  return is_better[best_metric()] != 0;
}

/// Returns the index of the metric whose best evaluation is the best checkpoint.
std::size_t Trainer::best_metric() const {
  const std::string usual = is_there(state_.best, "accuracy") ? "accuracy" : "loss";
  return index_of(state_.best, options_.best_metric.empty() ? usual : options_.best_metric);
}

std::vector<observe::MetricValue> Trainer::evaluate() { return evaluate(state_.epoch, false).value(); }

/// @return nothing if a rank wanted to stop, which all ranks learn together with the sums
std::optional<std::vector<observe::MetricValue>> Trainer::evaluate(std::int64_t epoch, bool may_stop) {
  group_->progress().note_task("evaluating", state_.global_step);
  replica_.store().average_statistics();
  replica_.store().gather_averages();
  for (const std::unique_ptr<Metric>& metric : metrics_) metric->reset();
  double counts[2] = {0, 0};  // number of samples; number of ranks that want to stop
  test_batches_.start_epoch(1);
  for (std::int64_t done = 1; const data::Batch* batch = test_batches_.next(); ++done) {
    for (const Share& range : predicted_parts(batch->step_samples.value, *group_, replica_.shards())) {
      const PartOfBatch part(*batch, range);
      const nn::Prediction prediction = replica_.predict(part.batch());
      for (const std::unique_ptr<Metric>& metric : metrics_) metric->add(prediction, part.batch());
    }
    counts[0] += static_cast<double>(batch->samples.value);
    if (listener_ != nullptr) {
      listener_->evaluation({.epoch = epoch, .batch = done, .batches = test_batches_.sampler().steps()});
    }
    if (!may_stop || wants_to_stop() == 0) continue;
    counts[1] = 1;
    break;
  }
  group_->control().all_reduce(std::span(counts), std::span(counts), ReduceOp::sum, Queue::host(), "evaluation").wait();
  if (counts[1] > 0) {
    agree_on_requests();
    return std::nullopt;
  }
  if (counts[0] != static_cast<double>(data_.test->size())) {
    throw Error(ErrorCode::mismatch, "evaluation counted " + std::to_string(counts[0]) + " samples of " +
                                         std::to_string(data_.test->size()) + ": do all ranks have the same data?")
        .on_every_rank();
  }
  std::vector<observe::MetricValue> values;
  for (const std::unique_ptr<Metric>& metric : metrics_) {
    metric->reduce(group_->control());
    const std::vector<observe::MetricValue> of_metric = metric->values();
    values.insert(values.end(), of_metric.begin(), of_metric.end());
  }
  return values;
}

}  // namespace lockstep::trainer
