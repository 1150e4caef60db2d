// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/metric.hpp"

#include <utility>
#include <variant>

#include "lockstep/base/error.hpp"
#include "nn/run/step.hpp"
#include "trainer/loop/metric_sums.hpp"
#include "trainer/loop/part_sums.hpp"

namespace lockstep::trainer {
namespace {

using observe::MetricValue;

template <typename... Kinds>
bool is_one_of(const ops::Operator& op) {
  return (std::holds_alternative<Kinds>(op) || ...);
}

bool counts_correct_predictions(const nn::Graph& graph) {
  return is_one_of<ops::CrossEntropy, ops::SoftCrossEntropy, ops::BinaryCrossEntropy, ops::Ctc, ops::AnchorLoss,
                   ops::Custom>(first_loss(graph).op);
}

/// The objective, and if wanted the fraction of correct predictions as the first loss counts them.
class LossMetric final : public Metric {
 public:
  LossMetric(const nn::Graph& graph, bool has_accuracy)
      : weightings_(nn::weightings_of(graph)),
        has_accuracy_(has_accuracy),
        sums_(1 + sizeof(ops::LossSums) / sizeof(double) * graph.losses().size()) {}

  void reset() override { sums_.reset(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    if (batch.samples == 0) return;
    row_.assign({static_cast<double>(batch.samples.value)});
    for (const ops::LossSums& term : prediction.losses) row_.insert(row_.end(), {term.weight, term.loss, term.correct});
    sums_.add(first_of(batch), row_);
  }
  void reduce(Communicator& communicator) override { sums_.reduce(communicator); }
  [[nodiscard]] std::vector<MetricValue> values() const override {
    const std::vector<double> totals = sums_.totals();
    std::vector<ops::LossSums> terms;
    for (std::size_t i = 1; i < totals.size(); i += 3) terms.push_back({totals[i], totals[i + 1], totals[i + 2]});
    std::vector<MetricValue> values{
        {.name = "loss",
         .value = ops::objective(weightings_.data(), static_cast<int>(terms.size()), terms.data(), totals[0])}};
    if (has_accuracy_)
      values.push_back({.name = "accuracy",
                        .value = fraction(terms.front().correct, terms.front().weight),
                        .higher_is_better = true,
                        .is_fraction = true});
    return values;
  }

 private:
  std::vector<ops::LossWeighting> weightings_;
  bool has_accuracy_;
  PartSums sums_;  // number of samples, and the sums of each loss term
  std::vector<double> row_;
};

std::vector<std::unique_ptr<Metric>> only(std::unique_ptr<Metric> metric) {
  std::vector<std::unique_ptr<Metric>> metrics;
  metrics.push_back(std::move(metric));
  return metrics;
}

}  // namespace

std::vector<std::unique_ptr<Metric>> loss_metrics(const nn::Graph& graph, const std::vector<TensorSpec>& /*tensors*/) {
  return only(std::make_unique<LossMetric>(graph, false));
}

std::vector<std::unique_ptr<Metric>> accuracy_metrics(const nn::Graph& graph,
                                                      const std::vector<TensorSpec>& /*tensors*/) {
  if (!counts_correct_predictions(graph))
    throw Error(ErrorCode::invalid_argument,
                "model '" + graph.name() + "' has no accuracy, because its first loss, '" + first_loss(graph).name +
                    "', counts no correct predictions: evaluate it by its loss (loss_metrics)");
  return only(std::make_unique<LossMetric>(graph, true));
}

}  // namespace lockstep::trainer
