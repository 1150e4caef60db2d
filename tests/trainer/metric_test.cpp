// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/metric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

using observe::MetricValue;

std::string names(const std::vector<MetricValue>& values) {
  std::string text;
  for (const MetricValue& value : values) text += (text.empty() ? "" : " ") + value.name;
  return text;
}

/// Returns the names of metrics.
std::string names(const std::vector<std::unique_ptr<Metric>>& metrics) {
  std::string text;
  for (const auto& metric : metrics) text += (text.empty() ? "" : " ") + names(metric->values());
  return text;
}

TEST(Metrics, AreThoseThatAreAskedFor) {
  const auto classifier = [](std::int64_t classes) {
    return nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, classes));
  };
  const nn::Graph of_ten = classifier(10);
  EXPECT_EQ(names(loss_metrics(of_ten, of_ten.inputs())), "loss");
  EXPECT_EQ(names(accuracy_metrics(of_ten, of_ten.inputs())), "loss accuracy");
  EXPECT_EQ(names(classification_metrics(of_ten, of_ten.inputs())), "loss accuracy top5_accuracy macro_f1");
  const nn::Graph of_five = classifier(5);
  EXPECT_EQ(names(classification_metrics(of_five, of_five.inputs())), "loss accuracy macro_f1")
      << "all labels are among five of five";
  const nn::Models models;
  for (const char* name : {"detector", "unet", "crnn"}) {
    const nn::Graph graph = models.make(name, models.example(name));
    EXPECT_EQ(names(accuracy_metrics(graph, graph.inputs())), "loss accuracy") << name;
  }
  const nn::Graph pixels = models.make("unet", models.example("unet"));
  EXPECT_EQ(names(segmentation_metrics(pixels, pixels.inputs(), {})), "loss accuracy miou");
  const nn::Graph of_hard_pixels = models.make("pp-liteseg", models.example("pp-liteseg"));
  EXPECT_EQ(names(loss_metrics(of_hard_pixels, of_hard_pixels.inputs())), "loss");
  EXPECT_EQ(names(segmentation_metrics(of_hard_pixels, of_hard_pixels.inputs(), {})), "loss accuracy miou");
}

TEST(Metrics, OfALossThatCountsNoPredictionsAreTheLossAlone) {
  nn::Graph regression("regression");
  regression.input({"images", {1, 2, 2}});
  const int guess = regression.add("fc", nn::Linear{.out_features = 6});
  regression.loss("distance", nn::SmoothL1{}, {guess, regression.input({"targets", {6, 1, 1}})});
  EXPECT_EQ(names(loss_metrics(regression, regression.inputs())), "loss");
  for (const bool of_pixels : {false, true}) {
    try {
      (void)(of_pixels ? segmentation_metrics(regression, regression.inputs(), {})
                       : accuracy_metrics(regression, regression.inputs()));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(error.message().find("model 'regression' has no "), std::string::npos) << error.message();
    }
  }
}

/// A classifier of one pixel, whose logits are handed to its metrics.
class TopFive : public testing::Test {
 protected:
  /// Evaluates batches of logits and labels. @return the value
  double of(std::vector<std::pair<std::vector<float>, std::int32_t>> samples) {
    Metric& metric = *metrics_.back();
    metric.reset();
    for (auto& [logits, label] : samples) {
      const std::array<ops::LossSums, 1> losses{};
      const std::array<Buffer, 1> outputs{Buffer(std::span(logits))};
      const std::array<Buffer, 2> tensors{Buffer(), Buffer(std::span(&label, 1))};
      metric.add({.losses = losses, .outputs = outputs}, {.samples = {1}, .tensors = tensors});
    }
    return metric.values().front().value.value();
  }

 private:
  const nn::Graph graph_ = [] {
    const nn::DataSpec data = nn::DataSpec::of_images(1, 1, 1, 7);
    nn::Graph graph("one pixel");
    graph.input(data.at("images"));
    graph.add("fc", nn::Linear{.out_features = 7});
    nn::classify(graph, data);
    return graph;
  }();
  const std::vector<std::unique_ptr<Metric>> metrics_ = segmentation_metrics(graph_, graph_.inputs(), {});
};

TEST_F(TopFive, CountsLabelsAmongTheFiveLargestLogits) {
  const std::vector<float> falling{7, 6, 5, 4, 3, 2, 1};
  for (int label = 0; label < 7; ++label) EXPECT_EQ(of({{falling, label}}), label < 5 ? 1 : 0) << label;
  EXPECT_EQ(of({{falling, 4}, {falling, 5}, {falling, 0}, {falling, 6}}), 0.5);
  EXPECT_EQ(of({{falling, 4}, {falling, -100}}), 1) << "an ignored label has no weight";
  EXPECT_EQ(of({}), 0);
}

TEST_F(TopFive, TakesTheFirstOfEqualLogitsAndNoNan) {
  const std::vector<float> equal(7, 1.0F);
  for (int label = 0; label < 7; ++label) EXPECT_EQ(of({{equal, label}}), label < 5 ? 1 : 0) << label;
  std::vector<float> broken{7, 6, 5, 4, 3, 2, 1};
  broken[6] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(of({{broken, 6}}), 0) << "a NaN is no prediction";
  EXPECT_EQ(of({{broken, 4}}), 0) << "which may be larger than any other";
  EXPECT_EQ(of({{broken, 3}}), 1);
}

/// Evaluates a classifier of one pixel by metrics of a classifier.
class Classes : public testing::Test {
 protected:
  using Samples = std::vector<std::pair<std::vector<float>, std::int32_t>>;

  std::vector<MetricValue> of(Samples samples) { return of(std::move(samples), metrics_); }
  /// Evaluates these logits and labels. @return the values of all metrics
  static std::vector<MetricValue> of(Samples samples, const std::vector<std::unique_ptr<Metric>>& metrics) {
    std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
    std::vector<MetricValue> values;
    for (const auto& metric : metrics) {
      metric->reset();
      for (auto& [logits, label] : samples) {
        const std::array<ops::LossSums, 1> losses{};
        const std::array<Buffer, 1> outputs{Buffer(std::span(logits))};
        const std::array<Buffer, 2> tensors{Buffer(), Buffer(std::span(&label, 1))};
        metric->add({.losses = losses, .outputs = outputs}, {.samples = {1}, .tensors = tensors});
      }
      metric->reduce(groups[0].control());
      for (MetricValue& value : metric->values()) values.push_back(std::move(value));
    }
    groups[0].close();
    return values;
  }

  const nn::Graph graph_ = [] {
    const nn::DataSpec data = nn::DataSpec::of_images(1, 1, 1, 3);
    nn::Graph graph("one pixel");
    graph.input(data.at("images"));
    graph.add("fc", nn::Linear{.out_features = 3});
    nn::classify(graph, data);
    return graph;
  }();
  const std::vector<std::unique_ptr<Metric>> metrics_ =
      classification_metrics(graph_, graph_.inputs(), {"cat", "dog", "cow"});
  const observe::ClassCounts* const counts_ = metrics_.back()->classes();
};

const std::vector<float> cat{1, 0, 0};
const std::vector<float> dog{0, 1, 0};
const std::vector<float> cow{0, 0, 1};

TEST_F(Classes, AreCountedByLabelAndPrediction) {
  const auto values = of({{cat, 0}, {cat, 0}, {dog, 0}, {dog, 1}, {cat, 1}, {cow, -100}, {{2, 2, 0}, 0}});
  EXPECT_EQ(names(values), "loss accuracy macro_f1");
  EXPECT_EQ(counts_->labels, (std::vector<std::int64_t>{4, 2, 0})) << "an ignored label is left out";
  EXPECT_EQ(counts_->predictions, (std::vector<std::int64_t>{4, 2, 0})) << "of equal logits the first counts";
  EXPECT_EQ(counts_->hits, (std::vector<std::int64_t>{3, 1, 0}));
  EXPECT_EQ(counts_->confusion, (std::vector<std::int64_t>{3, 1, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(counts_->recall(0), 0.75);
  EXPECT_EQ(counts_->precision(1), 0.5);
  EXPECT_EQ(counts_->f1(0), 0.75);
  EXPECT_EQ(counts_->recall(2), std::nullopt) << "it has no samples";
  EXPECT_EQ(counts_->name_of(1), "dog");
  EXPECT_EQ(counts_->name_of(3), "3");
  EXPECT_EQ(observe::value_of(values, "macro_f1"), (0.75 + 0.5) / 2) << "over the classes that occur";
}

TEST_F(Classes, ThatArePredictedButHaveNoSamplesLowerTheMacroF1) {
  EXPECT_EQ(observe::value_of(of({{cat, 0}, {cow, 0}}), "macro_f1"), (2.0 / 3 + 0) / 2);
  EXPECT_EQ(observe::value_of(of({}), "macro_f1"), 0);
}

TEST_F(Classes, OfPixelsAreCountedTogether) {
  const auto values = of({{cat, 0}, {cat, 0}, {dog, 0}, {dog, 1}, {cat, 1}, {cow, -100}},
                         segmentation_metrics(graph_, graph_.inputs(), {}));
  EXPECT_EQ(names(values), "loss accuracy miou");
  EXPECT_EQ(observe::value_of(values, "accuracy"), 3.0 / 5);
  EXPECT_EQ(observe::value_of(values, "miou"), (2.0 / 4 + 1.0 / 3) / 2) << "of the classes that occur";
}

TEST(ClassificationMetrics, NeedALabelForEachSample) {
  const nn::Models models;
  for (const char* name : {"detector", "crnn"}) {
    const nn::Graph graph = models.make(name, models.example(name));
    try {
      (void)classification_metrics(graph, graph.inputs());
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(error.message().find("no metrics of a classifier"), std::string::npos);
    }
  }
}

/// Counts the samples and batches of a rank.
class CountingMetric final : public Metric {
 public:
  void reset() override { counts_ = {}; }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    EXPECT_EQ(prediction.outputs[0].count, 10 * batch.samples.value);
    counts_[0] += batch.samples.value;
    counts_[1] = std::max(counts_[1], std::int64_t{batch.samples > 0});
  }
  void reduce(Communicator& communicator) override {
    communicator.all_reduce(std::span(counts_), std::span(counts_), ReduceOp::sum, Queue::host(), "count").wait();
  }
  [[nodiscard]] std::vector<MetricValue> values() const override {
    return {{.name = "samples", .value = static_cast<double>(counts_[0])},
            {.name = "ranks", .value = static_cast<double>(counts_[1])}};
  }

 private:
  std::array<std::int64_t, 2> counts_{};
};

/// Trains for some steps, if there are shards, and evaluates on threads as ranks. @return what each rank found
std::vector<std::vector<MetricValue>> evaluate_on(int ranks, DType precision, int shards) {
  const data::DatasetPair data = testing_support::small_digits(200, 53, 12);
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(ranks, {.wait = {.spins_before_yield = 0}});
  std::vector<std::vector<MetricValue>> found(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto ops = ops::make_reference_ops();
      {
        Trainer trainer(
            groups[rank], *ops, nn::make_model("lenet", nn::DataSpec::of_images(1, 12, 12, 10)), data,
            {.precision = precision,
             .batch = {20},
             .schedule = {.peak = 0.05},
             .optimizer = {.momentum = 0.9},
             .step = {.shards = shards},
             .metrics = [](const auto& graph, const auto& tensors) { return classification_metrics(graph, tensors); }});
        trainer.add_metric(std::make_unique<CountingMetric>());
        EXPECT_THROW(trainer.add_metric(std::make_unique<CountingMetric>()), Error) << "the name is taken";
        if (shards > 0) (void)trainer.train_steps(8);
        found[rank] = trainer.evaluate();
        for (const MetricValue& metric : trainer.metrics()) EXPECT_FALSE(metric.value);
      }
      groups[rank].close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

/// Without shards ranks train other weights, so that the initial ones are evaluated.
TEST(Metrics, AreTheSameOnAnyRanks) {
  for (const auto& [precision, shards] : {std::pair{DType::float32, 6}, {DType::float64, 6}, {DType::float32, 0}}) {
    const std::vector<MetricValue> alone = evaluate_on(1, precision, shards).front();
    EXPECT_EQ(names(alone), "loss accuracy top5_accuracy macro_f1 samples ranks");
    const auto value = [&](const char* name) { return observe::value_of(alone, name).value(); };
    EXPECT_EQ(value("samples"), 53) << "each sample once";
    EXPECT_GT(value("accuracy"), shards > 0 ? 0.1 : 0);
    EXPECT_LT(value("accuracy"), value("top5_accuracy"));
    EXPECT_LT(value("top5_accuracy"), 1);
    EXPECT_EQ(std::round(53 * value("top5_accuracy")), 53 * value("top5_accuracy")) << "of 53 samples";
    for (const int ranks : {2, 3, 5}) {
      std::vector<MetricValue> expected = alone;
      expected.back().value = shards > 0 ? ranks : 3;  // without shards there are three parts of at most 20 samples
      if (shards == 0 && ranks == 2) expected.back().value = 2;
      for (const std::vector<MetricValue>& of_rank : evaluate_on(ranks, precision, shards))
        EXPECT_EQ(of_rank, expected) << shards << " shards on " << ranks << " ranks, to the last bit";
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer
