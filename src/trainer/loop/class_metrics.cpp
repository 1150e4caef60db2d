// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>

#include "lockstep/base/error.hpp"
#include "trainer/loop/confusion.hpp"
#include "trainer/loop/metric_sums.hpp"
#include "trainer/loop/part_sums.hpp"

namespace lockstep::trainer {
namespace {

using observe::MetricValue;

constexpr int top_places = 5;

/// Where the predictions and the labels of a classifier are. There may be one for each sample, or for each pixel.
struct Classifier {
  ops::CrossEntropy loss;  ///< or one with the same labels
  ops::Shape logits;
  std::size_t output = 0;  ///< index of the logits among the outputs
  std::size_t labels = 0;  ///< index of the labels among the tensors of a batch

  [[nodiscard]] std::int64_t positions() const { return logits.height * logits.width; }
};

/// The logits and the label of a position.
template <typename Real>
struct Guess {
  const Real* logits;
  std::int64_t stride;  // from the logit of a class to the next one
  std::int32_t label;
  Real operator[](std::int64_t c) const { return logits[c * stride]; }
};

/// Calls `f(guess)` for every position of a batch whose label counts.
template <typename F>
void for_each_guess(const Classifier& of, const nn::Prediction& prediction, const data::Batch& batch, const F& f) {
  const Buffer& logits = prediction.outputs[of.output];
  const auto* labels = static_cast<const std::int32_t*>(batch.tensors[of.labels].data);
  const std::int64_t positions = of.positions();
  const auto visit = [&]<typename Real>(const Real* all) {
    for (std::int64_t i = 0; i < batch.samples.value * positions; ++i) {
      if (labels[i] == of.loss.ignore_index || labels[i] < 0 || labels[i] >= of.logits.channels) continue;
      f(Guess<Real>{all + i / positions * of.logits.channels * positions + i % positions, positions, labels[i]});
    }
  };
  logits.dtype == DType::float64 ? visit(static_cast<const double*>(logits.data))
                                 : visit(static_cast<const float*>(logits.data));
}

/// The fraction of labels that are among the classes with the largest logits. Of equal logits the first is the larger,
/// and NaN is larger than any number. Labels weigh as in the loss.
class TopMetric final : public Metric {
 public:
  explicit TopMetric(Classifier classifier) : of_(std::move(classifier)), sums_(2) {}

  void reset() override { sums_.reset(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    std::array<double, 2> sums{};
    for_each_guess(of_, prediction, batch, [&](const auto& guess) {
      const std::vector<double>& weights = of_.loss.class_weights;
      const double weight = weights.empty() ? 1 : weights[static_cast<std::size_t>(guess.label)];
      sums[0] += is_among_first(guess) ? weight : 0;
      sums[1] += weight;
    });
    if (batch.samples > 0) sums_.add(first_of(batch), sums);
  }
  void reduce(Communicator& communicator) override { sums_.reduce(communicator); }
  [[nodiscard]] std::vector<MetricValue> values() const override {
    const std::vector<double> totals = sums_.totals();
    return {{.name = "top5_accuracy",
             .value = fraction(totals[0], totals[1]),
             .higher_is_better = true,
             .is_fraction = true}};
  }

 private:
  template <typename Real>
  [[nodiscard]] bool is_among_first(const Guess<Real>& guess) const {
    const Real own = guess[guess.label];
    int ahead = std::isnan(own) ? top_places : 0;
    for (std::int64_t c = 0; c < of_.logits.channels; ++c)
      ahead += guess[c] < own || (guess[c] == own && c >= guess.label) ? 0 : 1;
    return ahead < top_places;
  }

  Classifier of_;
  PartSums sums_;  // of the weights of labels among the largest, and of all labels
};

/// What has a label.
enum class LabelOf { sample, pixel };

/// Counts labels and predictions of each class. As in the loss, the first of the largest logits is the prediction.
class ClassMetric final : public Metric {
 public:
  ClassMetric(Classifier classifier, LabelOf label_of, std::vector<std::string> names)
      : of_(std::move(classifier)), label_of_(label_of), confusion_(of_.logits.channels, std::move(names)) {}

  void reset() override { confusion_.reset(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    for_each_guess(of_, prediction, batch, [&](const auto& guess) {
      std::int64_t largest = 0;
      for (std::int64_t c = 1; c < of_.logits.channels; ++c) largest = guess[c] > guess[largest] ? c : largest;
      confusion_.count(guess.label, largest);
    });
  }
  void reduce(Communicator& communicator) override {
    confusion_.reduce(communicator);
    if (label_of_ == LabelOf::pixel) confusion_.add_iou();
  }
  [[nodiscard]] std::vector<MetricValue> values() const override {
    if (label_of_ == LabelOf::pixel) return confusion_.metrics_of_pixels();
    return {{.name = "macro_f1",
             .value = confusion_.counts().macro_f1(),
             .higher_is_better = true,
             .is_fraction = true,
             .in_table = false}};
  }
  [[nodiscard]] const observe::ClassCounts* classes() const override { return &confusion_.counts(); }

 private:
  Classifier of_;
  LabelOf label_of_;
  Confusion confusion_;
};

/// Returns a cross-entropy with the labels of a loss; nothing if the loss has none.
std::optional<ops::CrossEntropy> cross_entropy_of(const ops::Operator& loss) {
  if (const auto* of_all = std::get_if<ops::CrossEntropy>(&loss)) return *of_all;
  const auto* of_hard = std::get_if<ops::OhemCrossEntropy>(&loss);
  if (of_hard == nullptr) return {};
  return ops::CrossEntropy{.ignore_index = of_hard->ignore_index};
}

/// @throws Error{invalid_argument} unless the first loss of the graph is such a cross-entropy of an output
Classifier classifier_of(const nn::Graph& graph, const std::vector<TensorSpec>& tensors, LabelOf label_of) {
  const bool of_sample = label_of == LabelOf::sample;
  const nn::Node& node = first_loss(graph);
  if (const auto loss = cross_entropy_of(node.op)) {
    const auto output = std::ranges::find(graph.outputs(), node.inputs[0], &nn::Output::value);
    const std::string& labels = graph.values()[static_cast<std::size_t>(node.inputs[1])].name;
    const auto tensor = std::ranges::find(tensors, labels, &TensorSpec::name);
    Classifier classifier{.loss = *loss,
                          .logits = graph.shape(node.inputs[0]),
                          .output = static_cast<std::size_t>(output - graph.outputs().begin()),
                          .labels = static_cast<std::size_t>(tensor - tensors.begin())};
    if (output != graph.outputs().end() && tensor != tensors.end() && (!of_sample || classifier.positions() == 1))
      return classifier;
  }
  throw Error(ErrorCode::invalid_argument,
              "model '" + graph.name() + "' has no metrics of " + (of_sample ? "a classifier" : "segmentation") +
                  ": its first loss must be a cross-entropy with a label for each " +
                  (of_sample ? "sample, and its logits must be an output (nn::classify makes both)"
                             : "pixel, and its logits must be an output"));
}

/// Makes the metrics of pictures or pixels that have a class.
std::vector<std::unique_ptr<Metric>> class_metrics(const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
                                                   LabelOf label_of, std::vector<std::string> names) {
  const Classifier classifier = classifier_of(graph, tensors, label_of);
  const bool of_pixels = label_of == LabelOf::pixel;
  auto metrics = of_pixels ? loss_metrics(graph, tensors) : accuracy_metrics(graph, tensors);
  metrics.push_back(std::make_unique<ClassMetric>(classifier, label_of, std::move(names)));
  if (classifier.logits.channels > top_places)
    metrics.insert(of_pixels ? metrics.end() : metrics.end() - 1, std::make_unique<TopMetric>(classifier));
  return metrics;
}

}  // namespace

const nn::Node& first_loss(const nn::Graph& graph) {
  return graph.nodes()[static_cast<std::size_t>(graph.losses().front().node)];
}

std::vector<std::unique_ptr<Metric>> classification_metrics(const nn::Graph& graph,
                                                            const std::vector<TensorSpec>& tensors,
                                                            std::vector<std::string> names) {
  return class_metrics(graph, tensors, LabelOf::sample, std::move(names));
}

std::vector<std::unique_ptr<Metric>> segmentation_metrics(const nn::Graph& graph,
                                                          const std::vector<TensorSpec>& tensors,
                                                          std::vector<std::string> names) {
  return class_metrics(graph, tensors, LabelOf::pixel, std::move(names));
}

}  // namespace lockstep::trainer
