// SPDX-License-Identifier: Apache-2.0
// Nodes that no loss depends on: predictions run them, and training steps do not. Nodes that only auxiliary losses
// depend on: training steps run them, and predictions do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/nn/explain.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/decorated.hpp"
#include "nn/drawn_run.hpp"

namespace lockstep::nn {
namespace {

TEST(Outputs, CostStepsOfTheReferenceNothing) {
  expect_that_outputs_cost_steps_nothing<double>(ops::make_reference_ops, {}, 1e-14);
  expect_that_outputs_cost_steps_nothing<double>(ops::make_reference_ops, {.fuse = false, .recompute = false}, 1e-14);
}

TEST(Outputs, CostStepsOfOneDnnNothing) {
  for (const int threads : {1, 2})
    expect_that_outputs_cost_steps_nothing<float>([=] { return ops::make_onednn_ops(threads); }, {}, 1e-6);
}

TEST(Outputs, CostStepsInHalfPrecisionNothing) {
  const auto make = [] {
    return ops::make_rounded_ops(ops::make_reference_ops(), DType::bfloat16, ops::HalfPrecision::emulated);
  };
  expect_that_outputs_cost_steps_nothing<float>(make, {}, 1e-2);
}

/// The branch shares parameters, which must not change how gradients of shards and micro-batches are added.
TEST(Outputs, CostStepsOfShardsAndMicroBatchesNothing) {
  const std::vector<double> images = wavy(4 * 2 * 8 * 8);
  const std::vector<std::int32_t> labels = cycling_labels(4, 3);
  const void* inputs[] = {images.data(), labels.data()};
  for (const int parts : {0, 2}) {
    std::vector<std::vector<double>> found;
    for (const Graph& graph : {knotty_network(), decorated(knotty_network(), "conv1", "bn1")}) {
      const auto ops = ops::make_reference_ops();
      Model model(graph, *ops,
                  {.dtype = DType::float64,
                   .step = {.shards = 2, .lanes = parts == 0 ? 2 : 1, .accumulate = 2},
                   .own_shards = {0, 2},
                   .synchronized_parts = parts});
      std::vector<double> parameters(static_cast<std::size_t>(model.parameters().count().value));
      std::vector<double> gradients(parameters.size() * static_cast<std::size_t>(model.gradient_places()));
      std::vector<double> state(2 * static_cast<std::size_t>(model.state().count().value));
      model.bind({.parameters = Trainee::view(parameters),
                  .gradients = Trainee::view(gradients),
                  .state = Trainee::view(state)});
      model.initialize(1);
      SingleRank alone;
      (void)model.train({.samples = 4, .inputs = inputs}, {.samples = 4}, alone);
      gradients.push_back(static_cast<double>(model.activation_bytes(4).value));
      gradients.insert(gradients.end(), state.begin(), state.end());
      found.push_back(std::move(gradients));
    }
    EXPECT_EQ(found[1], found[0]) << parts << " parts";
  }
}

TEST(Outputs, AreNotAmongTheOperatorsOfAStepThatIsExplained) {
  const auto ops = ops::make_reference_ops();
  const StepReport report = explain_step(decorated(knotty_network(), "conv1", "bn1"), *ops, DType::float32, 2);
  EXPECT_TRUE(std::ranges::none_of(report.operators, [](const OperatorReport& one) {
    return one.name.find("again") != std::string::npos || one.name.find("probability") != std::string::npos;
  }));
}

TEST(Outputs, HaveTheExtentsOfTheirInputs) {
  const auto of_side = [](std::int64_t side) {
    return decorated(make_model("resnet20", DataSpec::of_images(2, side, side, 3)), "conv1", "bn1");
  };
  Trainee trained(of_side(8));
  const std::size_t large = trained.model.add_extents(of_side(12));
  const std::vector<double> images = wavy(2 * 2 * 12 * 12);
  const std::vector<std::int32_t> labels = cycling_labels(2, 3);
  const void* inputs[] = {images.data(), labels.data()};
  for (const auto& [extents, side] : {std::pair<std::size_t, std::int64_t>{0, 8}, {large, 12}}) {
    const Prediction prediction = trained.model.predict({.samples = 2, .inputs = inputs, .extents = extents});
    EXPECT_EQ(prediction.outputs[1].count.value, 2 * 3);
    EXPECT_EQ(prediction.outputs[2].count.value, 2 * 16 * side * side);
  }
}

/// A classifier with a second head, whose loss is auxiliary or not.
Graph with_two_heads(bool is_auxiliary) {
  const DataSpec data = DataSpec::of_images(2, 6, 6, 3);
  Graph graph("two heads");
  const int images = graph.input(data.at("images"));
  const int labels = graph.input(data.at("labels"));
  const int features = graph.add("conv", Convolution{.out_channels = 4, .padding = 1}, {images});
  const int second = graph.add("second", Linear{.out_features = 3}, {graph.add("norm", BatchNorm{}, {features})});
  if (is_auxiliary) {
    graph.auxiliary_loss("auxiliary", CrossEntropy{}, {second, labels}, 0.5);
  } else {
    graph.loss("auxiliary", CrossEntropy{}, {second, labels}, 0.5);
  }
  const int logits = graph.add("first", Linear{.out_features = 3}, {features});
  graph.output("logits", logits);
  graph.loss("loss", CrossEntropy{}, {logits, labels});
  graph.check();
  return graph;
}

TEST(AuxiliaryLosses, AreTrainedAsOthersAndNotEvaluated) {
  DrawnRun<double> with(with_two_heads(true), 3, {}, ops::make_reference_ops());
  DrawnRun<double> without(with_two_heads(false), 3, {}, ops::make_reference_ops());
  for (int step = 0; step < 3; ++step) EXPECT_EQ(with.step(step), without.step(step));
  EXPECT_EQ(with.parameters, without.parameters);
  EXPECT_EQ(with.state, without.state);
  const Prediction evaluated = with.predict(4);
  const Prediction of_both = without.predict(4);
  EXPECT_EQ(evaluated.losses[0].loss, 0);
  EXPECT_EQ(evaluated.losses[0].weight, 0);
  EXPECT_GT(of_both.losses[0].loss, 0);
  EXPECT_EQ(evaluated.losses[1].loss, of_both.losses[1].loss);
  EXPECT_LT(with.model.activation_bytes(4, false).value, without.model.activation_bytes(4, false).value);
}

TEST(AuxiliaryLosses, LeaveOutTheirLayersOnly) {
  const Graph graph = with_two_heads(true);
  const std::vector<bool> is_run = graph.contributes_to_evaluation();
  for (std::size_t n = 0; n < is_run.size(); ++n) {
    const std::string& name = graph.nodes()[n].name;
    EXPECT_EQ(is_run[n], name != "norm" && name != "second" && name != "auxiliary") << name;
    EXPECT_TRUE(graph.contributes_to_loss()[n]) << name;
  }
}

}  // namespace
}  // namespace lockstep::nn
