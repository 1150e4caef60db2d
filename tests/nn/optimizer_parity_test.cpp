// SPDX-License-Identifier: Apache-2.0
// Holds the optimizers to PyTorch's and timm's over 100 steps, and LARS to the formula of its paper, in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/nn/optimizer.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"

namespace lockstep::nn {
namespace {

using Doubles = std::vector<double>;

constexpr int parity_steps = 100;

Layout parity_layout() {
  Layout layout;
  layout.add("weight", {3, 5});
  layout.add("bias", {4});
  return layout;
}

double rate_of(int step) { return 0.01 * (1 + 0.5 * std::sin(step)); }

/// The gradients of mpi-scripts/parity/optimizers-pytorch.py, which depend on the weights, so that differences would
/// grow.
double gradient_of(int step, std::size_t tensor, std::int64_t i, double weight) {
  return std::sin(0.37 * static_cast<double>(i) + 1.3 * step + static_cast<double>(tensor)) + 0.05 * weight;
}

/// Weights and state of an optimizer, of which this object updates the given parts.
class ParityRun {
 public:
  ParityRun(ops::Ops& ops, const OptimizerOptions& options, std::vector<LayoutPart> parts)
      : ops_(ops), options_(options), optimizer_(layout_, options), parts_(std::move(parts)) {
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
      const TensorSlot& slot = layout_.tensors()[i];
      for (std::int64_t j = 0; j < slot.count.value; ++j)
        at(weights_, slot, j) = std::sin(0.7 * static_cast<double>(j) + static_cast<double>(i));
    }
    for (Doubles& state : state_) state.resize(static_cast<std::size_t>(total(parts_).value));
    std::vector<Buffer> buffers(std::begin(state_), std::end(state_));
    buffers.resize(Optimizer::state_names(options.rule).size());
    steps_ = optimizer_.steps(weights_, Buffer(gradients_), buffers, scalars_, squares_, parts_);
  }

  void take(int step) {
    constexpr double scale = 0.25;
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
      const TensorSlot& slot = layout_.tensors()[i];
      for (std::int64_t j = 0; j < slot.count.value; ++j)
        at(gradients_, slot, j) = gradient_of(step, i, j, at(weights_, slot, j)) / scale;
    }
    scalars_ = {.learning_rate = rate_of(step),
                .gradient_scale = scale,
                .first_correction = 1 - std::pow(options_.momentum, step + 1),
                .second_correction = 1 - std::pow(options_.beta2, step + 1)};
    std::fill(squares_.begin(), squares_.end(), 0.0);
    std::vector<ops::UpdateStep> measured;
    for (const ops::UpdateStep& update : steps_)
      if (update.squares != nullptr || update.rule == ops::UpdateRule::lamb) measured.push_back(update);
    ops_.measure_update(measured);
    ops_.update(steps_);
  }

  [[nodiscard]] Doubles weights_of(std::size_t tensor) const {
    const TensorSlot& slot = layout_.tensors()[tensor];
    const auto begin = weights_.begin() + slot.offset.value;
    return {begin, begin + slot.count.value};
  }

 private:
  static double& at(Doubles& of, const TensorSlot& slot, std::int64_t i) {
    return of[static_cast<std::size_t>(slot.offset.value + i)];
  }

  ops::Ops& ops_;
  OptimizerOptions options_;
  Layout layout_ = parity_layout();
  Optimizer optimizer_;
  std::vector<LayoutPart> parts_;
  Doubles weights_ = Doubles(static_cast<std::size_t>(layout_.count().value));
  Doubles gradients_ = weights_;
  Doubles state_[2];
  Doubles squares_ = Doubles(4);
  ops::UpdateScalars scalars_;
  std::vector<ops::UpdateStep> steps_;
};

/// The whole layout, once in one part and once in parts that cut a tensor.
std::vector<std::vector<LayoutPart>> divisions() { return {{{{0}, {32}}}, {{{0}, {7}}, {{7}, {13}}, {{20}, {12}}}}; }

OptimizerOptions options_of(const nlohmann::json& recorded) {
  OptimizerOptions options{.momentum = recorded.at("momentum"), .weight_decay = recorded.at("weight_decay")};
  for (const ops::UpdateRule rule : {ops::UpdateRule::sgd, ops::UpdateRule::adamw, ops::UpdateRule::lamb}) {
    std::string name_of_rule(name(rule));
    std::transform(name_of_rule.begin(), name_of_rule.end(), name_of_rule.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    if (recorded.at("rule") == name_of_rule) options.rule = rule;
  }
  options.nesterov = recorded.value("nesterov", false);
  options.beta2 = recorded.value("beta2", options.beta2);
  options.epsilon = recorded.value("epsilon", options.epsilon);
  return options;
}

TEST(PyTorchOptimizers, TakeTheSameSteps) {
  const auto recorded = nlohmann::json::parse(std::ifstream(LOCKSTEP_PYTORCH_OPTIMIZERS));
  ASSERT_EQ(recorded.size(), 4U);
  for (const auto& one : recorded) {
    for (const auto& parts : divisions()) {
      const auto ops = ops::make_onednn_ops(2);
      ParityRun run(*ops, options_of(one), parts);
      for (int step = 0; step < parity_steps; ++step) run.take(step);
      for (std::size_t tensor = 0; tensor < 2; ++tensor) {
        const Doubles expected = one.at("weights").at(tensor);
        const Doubles weights = run.weights_of(tensor);
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(weights[i], expected[i], 1e-9) << one.at("rule") << ", tensor " << tensor << ", element " << i;
      }
    }
  }
}

/// Returns the weights of the tensor after the steps, by the formula of You, Gitman, Ginsburg, algorithm 1.
Doubles by_the_paper(const OptimizerOptions& options, std::size_t tensor, std::size_t count) {
  Doubles weights(count);
  for (std::size_t i = 0; i < count; ++i)
    weights[i] = std::sin(0.7 * static_cast<double>(i) + static_cast<double>(tensor));
  Doubles velocity(count);
  for (int step = 0; step < parity_steps; ++step) {
    Doubles gradients(count);
    double weight_squares = 0;
    double gradient_squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
      gradients[i] = gradient_of(step, tensor, static_cast<std::int64_t>(i), weights[i]);
      weight_squares += weights[i] * weights[i];
      gradient_squares += gradients[i] * gradients[i];
    }
    const double norm = std::sqrt(weight_squares);
    const double local = options.trust_coefficient * norm / (std::sqrt(gradient_squares) + options.weight_decay * norm);
    for (std::size_t i = 0; i < count; ++i) {
      velocity[i] =
          options.momentum * velocity[i] + rate_of(step) * local * (gradients[i] + options.weight_decay * weights[i]);
      weights[i] -= velocity[i];
    }
  }
  return weights;
}

TEST(Lars, FollowsTheFormulaOfItsPaper) {
  const OptimizerOptions options{
      .rule = ops::UpdateRule::lars, .momentum = 0.9, .trust_coefficient = 0.02, .weight_decay = 0.01};
  for (const auto& parts : divisions()) {
    const auto ops = ops::make_reference_ops();
    ParityRun run(*ops, options, parts);
    for (int step = 0; step < parity_steps; ++step) run.take(step);
    for (std::size_t tensor = 0; tensor < 2; ++tensor) {
      const Doubles weights = run.weights_of(tensor);
      const Doubles expected = by_the_paper(options, tensor, weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(weights[i], expected[i], 1e-12) << i;
    }
  }
}

/// Without decay of vectors, a bias takes plain steps, as one whose trust ratio is 1.
TEST(Lars, LeavesVectorsAloneOnRequest) {
  OptimizerOptions options{.rule = ops::UpdateRule::lars, .momentum = 0.9, .decay_vectors = false};
  const auto ops = ops::make_reference_ops();
  ParityRun lars(*ops, options, divisions().front());
  options.rule = ops::UpdateRule::sgd;
  ParityRun sgd(*ops, options, divisions().front());
  lars.take(0);
  sgd.take(0);
  EXPECT_EQ(lars.weights_of(1), sgd.weights_of(1));
  EXPECT_NE(lars.weights_of(0), sgd.weights_of(0));
}

}  // namespace
}  // namespace lockstep::nn
