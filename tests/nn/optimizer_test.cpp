// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/reference.hpp"
#include "support/errors.hpp"

namespace lockstep::nn {
namespace {

/// Returns the updates of an optimizer with one state buffer; without parts of the whole layout.
std::vector<ops::UpdateStep> steps_of(const Layout& layout, const OptimizerOptions& options, const Buffer& parameters,
                                      const Buffer& gradients, const Buffer& state, const ops::UpdateScalars& scalars,
                                      std::vector<LayoutPart> parts = {}) {
  if (parts.empty()) parts.push_back({{0}, layout.count()});
  return Optimizer(layout, options).steps(parameters, gradients, {&state, 1}, scalars, {}, parts);
}

class SgdTest : public testing::Test {
 protected:
  static Buffer view(std::vector<double>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::float64};
  }
  void step(const OptimizerOptions& options, std::int64_t samples, double learning_rate) {
    const ops::UpdateScalars scalars{.learning_rate = learning_rate,
                                     .gradient_scale = 1 / static_cast<double>(samples)};
    ops->update(steps_of(layout, options, view(parameters), view(gradients), view(velocity), scalars));
  }

  static Layout one_tensor() {
    Layout layout;
    layout.add("weight", {2, Layout::alignment / 2});
    return layout;
  }
  /// Returns two elements, and zeros up to the end of the tensor.
  static std::vector<double> tensor(double first, double second) {
    std::vector<double> values(Layout::alignment, 0.0);
    values[0] = first;
    values[1] = second;
    return values;
  }

  std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  Layout layout = one_tensor();
  std::vector<double> parameters = tensor(1, -2);
  std::vector<double> gradients = tensor(8, 4);  // sums over 4 samples, whose means are 2 and 1
  std::vector<double> velocity = tensor(0, 0);
};

TEST_F(SgdTest, ScalesGradients) {
  step({}, 4, 0.5);
  EXPECT_EQ(parameters, tensor(0, -2.5));
}

TEST_F(SgdTest, MomentumAddsUpVelocity) {
  step({.momentum = 0.5}, 4, 0.5);
  step({.momentum = 0.5}, 4, 0.5);  // the momentum buffer is 2, then 3
  EXPECT_EQ(velocity, tensor(3, 1.5));
  EXPECT_EQ(parameters, tensor(1 - 0.5 * (2 + 3), -2 - 0.5 * (1 + 1.5)));
}

TEST_F(SgdTest, NesterovLooksAhead) {
  step({.momentum = 0.5, .nesterov = true}, 4, 0.5);  // the update is g + 0.5·v with v = g
  EXPECT_EQ(parameters, tensor(1 - 0.5 * 3, -2 - 0.5 * 1.5));
}

TEST_F(SgdTest, WeightDecayPullsToZero) {
  step({.weight_decay = 0.25}, 4, 1);
  EXPECT_EQ(parameters, tensor(1 - (2 + 0.25), -2 - (1 - 0.5)));
}

/// A layout with a convolution, its normalization and linear layers, with padding between the tensors.
class ParameterGroups : public testing::Test {
 protected:
  ParameterGroups() {
    layout.add("conv.weight", {2, 3});
    layout.add("bn.weight", {2});
    layout.add("bn.bias", {2});
    layout.add("fc.weight", {3, 5});
    layout.add("fc.bias", {3});
    layout.add("fc2.weight", {1, 3});
  }
  /// Takes a step at rate 1 from elements and gradients that are all 1, and compares each element with
  /// `expected(name)`.
  void expect(const OptimizerOptions& options, const std::function<double(const std::string&)>& expected) {
    const auto count = static_cast<std::size_t>(layout.count().value);
    std::vector<double> parameters(count);
    std::vector<double> gradients(count);
    std::vector<double> velocity(count);
    for (const TensorSlot& slot : layout.tensors()) {
      for (std::int64_t i = slot.offset.value; i < slot.offset.value + slot.count.value; ++i)
        parameters[static_cast<std::size_t>(i)] = gradients[static_cast<std::size_t>(i)] = 1;
    }
    const auto view = [](std::vector<double>& values) { return Buffer(std::span(values)); };
    const ops::UpdateScalars scalars{.learning_rate = 1};
    ops->update(steps_of(layout, options, view(parameters), view(gradients), view(velocity), scalars));
    for (const TensorSlot& slot : layout.tensors()) {
      for (std::int64_t i = slot.offset.value; i < slot.offset.value + slot.count.value; ++i) {
        ASSERT_EQ(parameters[static_cast<std::size_t>(i)], expected(slot.name)) << slot.name;
        parameters[static_cast<std::size_t>(i)] = 0;
      }
    }
    EXPECT_TRUE(std::all_of(parameters.begin(), parameters.end(), [](double x) { return x == 0; }));
  }

  std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  Layout layout;
};

TEST_F(ParameterGroups, DecayAlikeUnlessToldOtherwise) {
  expect({.weight_decay = 0.5}, [](const std::string&) { return -0.5; });
}

TEST_F(ParameterGroups, LetBiasesAndNormalizationAlone) {
  expect({.weight_decay = 0.5, .decay_vectors = false}, [](const std::string& name) {
    return name == "conv.weight" || name == "fc.weight" || name == "fc2.weight" ? -0.5 : 0;
  });
}

TEST_F(ParameterGroups, FreezeByNameOrByItsBeginningUpToADot) {
  expect({.frozen = {"bn", "fc.bias"}},
         [](const std::string& name) { return name == "bn.weight" || name == "bn.bias" || name == "fc.bias" ? 1 : 0; });
  expect({.frozen = {"fc"}}, [](const std::string& name) { return name.starts_with("fc.") ? 1 : 0; });
}

TEST_F(ParameterGroups, RefuseANameThatNoParameterHas) {
  try {
    Optimizer(layout, {.frozen = {"bn", "fcc"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("there is no parameter to be frozen 'fcc'"), std::string::npos) << error.message();
  }
}

/// Parts may begin and end within groups, and next to frozen parameters.
TEST_F(ParameterGroups, AreCutAtTheEndsOfParts) {
  const OptimizerOptions options{.momentum = 0.5, .weight_decay = 0.25, .decay_vectors = false, .frozen = {"bn"}};
  const auto count = static_cast<std::size_t>(layout.count().value);
  const ops::UpdateScalars scalars{.learning_rate = 1};
  std::vector<double> whole(count, 2);
  std::vector<double> in_parts = whole;
  std::vector<double> gradients(count, 1);
  std::vector<double> velocity(count, 3);
  const auto take = [&](const std::vector<ops::UpdateStep>& updates) { ops->update(updates); };
  const auto view = [](std::vector<double>& values) { return Buffer(std::span(values)); };
  take(steps_of(layout, options, view(whole), view(gradients), view(velocity), scalars));
  // The parts are first every second block of 16 elements, then the others.
  for (const std::int64_t first : {0, 1}) {
    std::vector<LayoutPart> parts;
    for (std::int64_t at = first * 16; at < layout.count().value; at += 32) parts.push_back({{at}, {16}});
    std::vector<double> own(static_cast<std::size_t>(total(parts).value), 3);
    take(steps_of(layout, options, view(in_parts), view(gradients), view(own), scalars, parts));
    std::size_t at = 0;
    for (const LayoutPart& part : parts)
      for (std::int64_t i = 0; i < part.count.value; ++i)
        ASSERT_EQ(own[at++], velocity[static_cast<std::size_t>(part.offset.value + i)]) << part.offset.value + i;
    EXPECT_EQ(in_parts == whole, first == 1);
  }
}

TEST_F(ParameterGroups, BiasesMayHaveARateOfTheirOwn) {
  const auto count = static_cast<std::size_t>(layout.count().value);
  std::vector<double> parameters(count, 2);
  std::vector<double> gradients(count, 1);
  std::vector<double> velocity(count, 0);
  const ops::UpdateScalars scalars{.learning_rate = 0.5, .bias_learning_rate = 0.25};
  for (const bool bias_rate : {false, true}) {
    parameters.assign(count, 2);
    velocity.assign(count, 0);
    ops->update(steps_of(layout, {.momentum = 0.5, .bias_rate = bias_rate}, Buffer(std::span(parameters)),
                         Buffer(std::span(gradients)), Buffer(std::span(velocity)), scalars));
    for (const TensorSlot& slot : layout.tensors()) {
      const bool has_own = bias_rate && slot.name.ends_with("bias");
      EXPECT_EQ(parameters[static_cast<std::size_t>(slot.offset.value)], has_own ? 1.75 : 1.5) << slot.name;
    }
  }
}

TEST_F(SgdTest, TakesTheMomentumOfTheStepWhereThereIsOne) {
  velocity = tensor(4, 0);
  const ops::UpdateScalars scalars{.learning_rate = 1, .momentum = 0.25};
  ops->update(steps_of(layout, {.momentum = 0.5}, view(parameters), view(gradients), view(velocity), scalars));
  EXPECT_EQ(velocity[0], 0.25 * 4 + 8);
}

TEST_F(SgdTest, RefusesWhatCannotBe) {
  EXPECT_EQ(code_of([&] { (void)Optimizer(layout, {.momentum = -0.1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)Optimizer(layout, {.weight_decay = -1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)Optimizer(layout, {.nesterov = true}); }), ErrorCode::invalid_argument);
  std::vector<double> shorter{0};
  EXPECT_EQ(code_of([&] { (void)steps_of(layout, {}, view(parameters), view(gradients), view(shorter), {}); }),
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace lockstep::nn
