// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/trainee.hpp"

namespace lockstep::nn {

/// Appends nodes to a classifier that no loss depends on, and declares their results as outputs: "probability", the
/// sigmoid of the logits, and "again", a convolution, batch norm and ReLU with the parameters of `conv` and `norm`,
/// which reads the convolution's own input.
inline Graph decorated(Graph graph, const std::string& conv, const std::string& norm) {
  const auto node = [&](const std::string& name) {
    return *std::find_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& one) { return one.name == name; });
  };
  const int logits = graph.outputs().front().value;
  graph.output("probability", graph.add("probability", Pointwise{.kind = Pointwise::Kind::sigmoid}, {logits}));
  const int again = graph.add_shared("again.conv", conv, node(conv).inputs);
  graph.add_shared("again.norm", norm, {again});
  graph.output("again", graph.add("again.relu", Relu{}));
  return graph;
}

/// Trains a network with and without nodes of predictions, and expects the same steps, to the bit and to the byte, and
/// that predictions have the nodes' results.
/// @param make  makes the compute library, which computes in `Real`
template <typename Real>
void expect_that_outputs_cost_steps_nothing(const std::function<std::unique_ptr<ops::Ops>()>& make,
                                            OptimizationPasses passes, double tolerance) {
  constexpr std::int64_t batch = 3;
  TraineeOf<Real> plain(knotty_network(), 1, nullptr, make(), passes);
  TraineeOf<Real> more(decorated(knotty_network(), "conv1", "bn1"), 1, nullptr, make(), passes);
  const std::vector<double> drawn = wavy(batch * image_elements(plain.model.graph()));
  const std::vector<Real> images(drawn.begin(), drawn.end());
  const std::vector<std::int32_t> labels = cycling_labels(batch, 3);
  RecordingReducer expected_calls;
  RecordingReducer calls;
  const StepResult expected = plain.differentiate(images.data(), labels.data(), batch, expected_calls);
  EXPECT_EQ(more.differentiate(images.data(), labels.data(), batch, calls).loss, expected.loss);
  EXPECT_EQ(more.gradients, plain.gradients);
  EXPECT_EQ(more.state, plain.state);
  EXPECT_EQ(calls.calls, expected_calls.calls);
  EXPECT_EQ(more.model.activation_bytes(batch), plain.model.activation_bytes(batch));
  std::vector<std::string> names;
  std::vector<std::string> expected_names;
  for (const OperatorReport& report : plain.model.operators(batch)) expected_names.push_back(report.name);
  for (const OperatorReport& report : more.model.operators(batch)) names.push_back(report.name);
  EXPECT_EQ(names, expected_names);

  const void* inputs[] = {images.data(), labels.data()};
  const Prediction prediction = more.model.predict({.samples = batch, .inputs = inputs});
  ASSERT_EQ(prediction.outputs.size(), 3U);
  const auto at = [&](std::size_t output, std::int64_t i) {
    return static_cast<double>(static_cast<const Real*>(prediction.outputs[output].data)[i]);
  };
  for (std::int64_t i = 0; i < batch * 3; ++i) EXPECT_NEAR(at(1, i), 1 / (1 + std::exp(-at(0, i))), tolerance);
  ASSERT_EQ(prediction.outputs[2].count.value, batch * 4 * 8 * 8);
  bool is_any_positive = false;
  for (std::int64_t i = 0; i < prediction.outputs[2].count.value; ++i) {
    EXPECT_GE(at(2, i), 0);
    is_any_positive |= at(2, i) > 0;
  }
  EXPECT_TRUE(is_any_positive);
}

}  // namespace lockstep::nn
