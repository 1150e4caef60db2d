// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/metric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "nn/run/step.hpp"
#include "trainer/loop/part_sums.hpp"

namespace lockstep::trainer {
namespace {

using observe::MetricValue;

constexpr int top_places = 5;

template <typename... Kinds>
bool is_one_of(const ops::Operator& op) {
  return (std::holds_alternative<Kinds>(op) || ...);
}

const nn::Node& first_loss(const nn::Graph& graph) {
  return graph.nodes()[static_cast<std::size_t>(graph.losses().front().node)];
}

double fraction(double part, double whole) { return whole == 0 ? 0 : part / whole; }

/// Returns the index in the data set of the first sample of a part.
std::int64_t first_of(const data::Batch& batch) { return batch.ids.empty() ? 0 : batch.ids.front(); }

/// The objective, and the fraction of correct predictions as the first loss counts them.
class LossMetric final : public Metric {
 public:
  explicit LossMetric(const nn::Graph& graph)
      : weightings_(nn::weightings_of(graph)),
        judges_(is_one_of<ops::CrossEntropy, ops::SoftCrossEntropy, ops::BinaryCrossEntropy, ops::Ctc, ops::Custom>(
            first_loss(graph).op)),
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
    if (judges_)
      values.push_back({.name = "accuracy",
                        .value = fraction(terms.front().correct, terms.front().weight),
                        .higher_is_better = true,
                        .is_fraction = true});
    return values;
  }

 private:
  std::vector<ops::LossWeighting> weightings_;
  bool judges_;
  PartSums sums_;  // number of samples, and the sums of each loss term
  std::vector<double> row_;
};

/// The fraction of labels that are among the classes with the largest logits. Of equal logits the first is the larger,
/// and NaN is larger than any number. Labels weigh as in the loss.
class TopMetric final : public Metric {
 public:
  /// @param output, labels  index of the logits among the outputs, and of the labels among the tensors of a batch
  TopMetric(ops::CrossEntropy loss, const ops::Shape& logits, std::ptrdiff_t output, std::ptrdiff_t labels)
      : loss_(std::move(loss)),
        classes_(logits.channels),
        positions_(logits.height * logits.width),
        output_(static_cast<std::size_t>(output)),
        labels_(static_cast<std::size_t>(labels)) {}

  void reset() override { sums_ = {}; }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    const Buffer& logits = prediction.outputs[output_];
    const auto* labels = static_cast<const std::int32_t*>(batch.tensors[labels_].data);
    if (logits.dtype == DType::float64) {
      add(static_cast<const double*>(logits.data), labels, batch.samples.value);
    } else {
      add(static_cast<const float*>(logits.data), labels, batch.samples.value);
    }
  }
  void reduce(Communicator& communicator) override {
    communicator.all_reduce(std::span(sums_), std::span(sums_), ReduceOp::sum, Queue::host(), "top-5 accuracy").wait();
  }
  [[nodiscard]] std::vector<MetricValue> values() const override {
    return {{.name = "top5_accuracy",
             .value = fraction(sums_[0], sums_[1]),
             .higher_is_better = true,
             .is_fraction = true}};
  }

 private:
  template <typename Real>
  void add(const Real* logits, const std::int32_t* labels, std::int64_t samples) {
    for (std::int64_t i = 0; i < samples * positions_; ++i) {
      const std::int32_t label = labels[i];
      if (label == loss_.ignore_index) continue;
      const Real* first = logits + i / positions_ * classes_ * positions_ + i % positions_;
      const Real own = first[label * positions_];
      int ahead = std::isnan(own) ? top_places : 0;
      for (std::int64_t c = 0; c < classes_; ++c) {
        const Real other = first[c * positions_];
        ahead += other < own || (other == own && c >= label) ? 0 : 1;
      }
      const double weight = loss_.class_weights.empty() ? 1 : loss_.class_weights[static_cast<std::size_t>(label)];
      sums_[0] += ahead < top_places ? weight : 0;
      sums_[1] += weight;
    }
  }

  ops::CrossEntropy loss_;
  std::int64_t classes_;
  std::int64_t positions_;
  std::size_t output_;
  std::size_t labels_;
  std::array<double, 2> sums_{};  // of the weights of labels among the largest, and of all labels
};

}  // namespace

std::vector<std::unique_ptr<Metric>> make_metrics(const nn::Graph& graph, const std::vector<TensorSpec>& tensors) {
  std::vector<std::unique_ptr<Metric>> metrics;
  metrics.push_back(std::make_unique<LossMetric>(graph));
  const nn::Node& node = first_loss(graph);
  const auto* loss = std::get_if<ops::CrossEntropy>(&node.op);
  if (loss == nullptr || graph.shape(node.inputs[0]).channels <= top_places) return metrics;
  const auto output = std::ranges::find(graph.outputs(), node.inputs[0], &nn::Output::value);
  const std::string& labels = graph.values()[static_cast<std::size_t>(node.inputs[1])].name;
  const auto tensor = std::ranges::find(tensors, labels, &TensorSpec::name);
  if (output != graph.outputs().end() && tensor != tensors.end())
    metrics.push_back(std::make_unique<TopMetric>(*loss, graph.shape(node.inputs[0]), output - graph.outputs().begin(),
                                                  tensor - tensors.begin()));
  return metrics;
}

}  // namespace lockstep::trainer
