// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/evaluator.hpp"

#include <algorithm>

#include "base/nearest.hpp"

namespace lockstep::trainer {
namespace {

bool has(const MetricValues& metrics, const std::string& name) { return index_of(metrics, name) < metrics.size(); }

/// Returns the parts of a test batch that this rank predicts by themselves, as ranges of the global batch: its shards,
/// if there are any, or all that it has of the batch.
std::vector<Share> predicted_parts(std::int64_t step_samples, const Share& own, const ProcessGroup& group,
                                   const LeafShares& shards) {
  if (shards.total() == 0) return {own};
  const Share parts = shards.of(group.rank().value, group.size());
  std::vector<Share> ranges;
  for (std::int64_t part = parts.first; part < parts.end(); ++part) {
    const Share range = share_of(step_samples, part, shards.total());
    if (range.count > 0) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

std::size_t index_of(const MetricValues& metrics, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(metrics, name, &observe::MetricValue::name) - metrics.begin());
}

Evaluator::Evaluator(TrainingRun& run)
    : run_(&run), batches_(make_batches(run.data.test, run.group, run.options, run.replica.model(), false, nullptr)) {
  const MetricFactory make = run.options.metrics ? run.options.metrics : loss_metrics;
  for (std::unique_ptr<Metric>& metric : make(run.replica.model().graph(), run.data.train->tensors()))
    add_metric(std::move(metric));
  const data::DistributedSampler& sampler = batches_.sampler();
  for (const std::int64_t step : {std::int64_t{0}, sampler.steps() - 1}) {
    const Share own{sampler.first(step), static_cast<std::int64_t>(sampler.indices(step).size())};
    for (const Share& part : predicted_parts(sampler.step_samples(step).value, own, run.group, run.replica.shards()))
      run.replica.prepare({part.count}, false);
  }
}

void Evaluator::add_metric(std::unique_ptr<Metric> metric) {
  for (observe::MetricValue& value : metric->values()) {
    require(!has(run_->state.best, value.name), "there is a metric '" + value.name + "' already: give it another name",
            run_->group);
    value.value.reset();
    run_->state.evaluation.push_back(value);
    run_->state.best.push_back(std::move(value));
    run_->state.evaluations_since_best.push_back(0);
  }
  metrics_.push_back(std::move(metric));
}

MetricValues Evaluator::metrics() const {
  MetricValues metrics = run_->state.evaluation;
  for (observe::MetricValue& metric : metrics) metric.value.reset();
  return metrics;
}

const observe::ClassCounts* Evaluator::classes() const {
  for (const std::unique_ptr<Metric>& metric : metrics_)
    if (const observe::ClassCounts* classes = metric->classes(); classes != nullptr && !classes->labels.empty())
      return classes;
  return nullptr;
}

void Evaluator::check_options() const {
  const EarlyStop& stop = run_->options.early_stop;
  require(stop.patience >= 0, "a patience of " + std::to_string(stop.patience) + ": it cannot be negative",
          run_->group);
  std::vector<std::string_view> names;
  for (const observe::MetricValue& metric : run_->state.best) names.push_back(metric.name);
  for (const std::string& name : {run_->options.best_metric, stop.patience > 0 ? stop.metric : ""})
    require(name.empty() || has(run_->state.best, name), unknown("metric", name, names), run_->group);
  require(stop.patience == 0 || !stop.metric.empty(), "early stopping needs the name of a metric", run_->group);
}

bool Evaluator::stops_early() const {
  const std::size_t metric = index_of(run_->state.best, run_->options.early_stop.metric);
  return run_->options.early_stop.patience > 0 && metric < run_->state.best.size() && !run_->all_steps_done() &&
         run_->state.evaluations_since_best[metric] >= run_->options.early_stop.patience;
}

/// Returns the index of the metric whose best evaluation is the best checkpoint.
std::size_t Evaluator::best_metric() const {
  for (const std::string& name : {run_->options.best_metric, run_->options.usual_best_metric, std::string("accuracy")})
    if (has(run_->state.best, name)) return index_of(run_->state.best, name);
  return index_of(run_->state.best, "loss");
}

bool Evaluator::is_due(std::int64_t epoch) const {
  const std::int64_t interval = run_->options.eval_interval;
  return interval != 0 && (epoch % interval == 0 || run_->all_steps_done());
}

bool Evaluator::record(const MetricValues& evaluation) {
  RunState& state = run_->state;
  state.evaluation = evaluation;
  state.evaluated_step = state.global_step;
  std::vector<std::uint8_t> is_better(state.best.size());
  for (std::size_t i = 0; i < is_better.size(); ++i)
    is_better[i] = evaluation[i].is_better_than(state.best[i].value) ? 1 : 0;
  run_->group.control().broadcast(std::span(is_better), {0}, Queue::host(), "best metrics").wait();
  for (std::size_t i = 0; i < is_better.size(); ++i) {
    ++state.evaluations_since_best[i];
    if (is_better[i] == 0) continue;
    state.best[i] = evaluation[i];
    state.evaluations_since_best[i] = 0;
  }
  return is_better[best_metric()] != 0;
}

bool Evaluator::last_is_best() const {
  return run_->state.evaluation[best_metric()].value && run_->state.evaluations_since_best[best_metric()] == 0;
}

void Evaluator::predict(const data::Batch& batch) {
  std::vector<Buffer> tensors;
  const Share own{batch.first, batch.samples.value};
  for (const Share& range : predicted_parts(batch.step_samples.value, own, run_->group, run_->replica.shards())) {
    const std::int64_t offset = range.first - batch.first;
    tensors.clear();
    for (const Buffer& tensor : batch.tensors) {
      const std::int64_t each = batch.samples.value == 0 ? 0 : tensor.count.value / batch.samples.value;
      tensors.push_back(slice(tensor, {offset * each}, {range.count * each}));
    }
    data::Batch part = batch;
    part.samples = {range.count};
    part.first = range.first;
    part.ids = batch.ids.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(range.count));
    part.tensors = tensors;
    const nn::Prediction prediction = run_->replica.predict(part);
    for (const std::unique_ptr<Metric>& metric : metrics_) metric->add(prediction, part);
  }
}

std::optional<MetricValues> Evaluator::evaluate(std::int64_t epoch, const Requests* requests) {
  run_->note_task("evaluating");
  run_->replica.store().statistics().average();
  run_->replica.store().gather_averages();
  for (const std::unique_ptr<Metric>& metric : metrics_) metric->reset();
  double counts[2] = {0, 0};  // number of samples; number of ranks that want to stop
  batches_.start_epoch(1);
  for (std::int64_t done = 1; const data::Batch* batch = batches_.next(); ++done) {
    predict(*batch);
    counts[0] += static_cast<double>(batch->samples.value);
    run_->listener.evaluation({.epoch = epoch, .batch = done, .batches = batches_.sampler().steps()});
    if (requests == nullptr || requests->wants_to_stop() == 0) continue;
    counts[1] = 1;
    break;
  }
  Communicator& control = run_->group.control();
  control.all_reduce(std::span(counts), std::span(counts), ReduceOp::sum, Queue::host(), "evaluation").wait();
  if (counts[1] > 0) return std::nullopt;
  if (counts[0] != static_cast<double>(run_->data.test->size())) {
    throw Error(ErrorCode::mismatch, "evaluation counted " + std::to_string(counts[0]) + " samples of " +
                                         std::to_string(run_->data.test->size()) + ": do all ranks have the same data?")
        .on_every_rank();
  }
  MetricValues values;
  for (const std::unique_ptr<Metric>& metric : metrics_) {
    metric->reduce(control);
    const MetricValues of_metric = metric->values();
    values.insert(values.end(), of_metric.begin(), of_metric.end());
  }
  return values;
}

}  // namespace lockstep::trainer
