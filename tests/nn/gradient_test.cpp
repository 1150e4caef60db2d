// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/models.hpp"
#include "nn/trainee.hpp"
#include "support/errors.hpp"

namespace lockstep::nn {
namespace {

constexpr std::int64_t samples = 5;

/// Compares every parameter's gradient with central differences of the whole model's loss.
void expect_gradients_are_derivatives(const Graph& network, std::int32_t classes, OptimizationPasses passes = {}) {
  const std::vector<double> images = wavy(samples * image_elements(network));
  const std::vector<std::int32_t> labels = cycling_labels(samples, classes);
  Trainee trainee(network, 1, nullptr, ops::make_reference_ops(), passes);
  // Batch norm's gamma and beta are moved away from 1 and 0, which would hide mistakes.
  const std::vector<double> shift = wavy(static_cast<std::int64_t>(trainee.parameters.size()), 0.5);
  for (std::size_t i = 0; i < shift.size(); ++i) trainee.parameters[i] += 0.1 * shift[i];
  const auto loss = [&] { return trainee.differentiate(images.data(), labels.data(), samples).loss; };
  loss();
  const std::vector<double> gradients = trainee.gradients;
  for (const TensorSlot& tensor : trainee.model.parameters().tensors()) {
    const std::int64_t stride = std::max<std::int64_t>(1, tensor.count.value / 7);
    for (std::int64_t i = 0; i < tensor.count.value; i += stride) {
      double& parameter = trainee.parameters[static_cast<std::size_t>(tensor.offset.value + i)];
      const double at = parameter;
      constexpr double h = 1e-6;
      parameter = at + h;
      const double above = loss();
      parameter = at - h;
      const double below = loss();
      parameter = at;
      const double gradient = gradients[static_cast<std::size_t>(tensor.offset.value + i)];
      EXPECT_NEAR(gradient, (above - below) / (2 * h), 1e-6) << tensor.name << '[' << i << ']';
    }
  }
}

TEST(Gradients, OfTheKnottyNetworkAreDerivatives) {
  expect_gradients_are_derivatives(knotty_network(), 3, {.fuse = false});
}

TEST(Gradients, OfTheFusedKnottyNetworkAreDerivatives) { expect_gradients_are_derivatives(knotty_network(), 3); }

TEST(Gradients, OfASmallLenetAreDerivatives) {
  expect_gradients_are_derivatives(make_model("lenet", DataSpec::of_images(2, 6, 5, 3)), 3);
}

/// Every set of passes gives the same bits.
TEST(Gradients, PassesChangeNoBit) {
  const Graph network = knotty_network();
  ASSERT_LT(fuse_activations(network).nodes().size(), network.nodes().size());
  const std::vector<double> images = wavy(samples * image_elements(network));
  const std::vector<std::int32_t> labels = cycling_labels(samples, 3);
  const std::vector<std::string_view> names = OptimizationPasses::names();
  Trainee all(network);
  for (int step = 0; step < 3; ++step) all.step(images, labels, 0.05);
  for (std::size_t set = 0; set < std::size_t{1} << names.size(); ++set) {
    OptimizationPasses passes;
    for (std::size_t i = 0; i < names.size(); ++i)
      if ((set >> i & 1) != 0) passes.disable(std::string(names[i]));
    Trainee some(network, 1, nullptr, ops::make_reference_ops(), passes);
    for (int step = 0; step < 3; ++step) some.step(images, labels, 0.05);
    EXPECT_EQ(some.gradients, all.gradients) << set;
    EXPECT_EQ(some.parameters, all.parameters) << set;
    EXPECT_EQ(some.state, all.state) << set;
  }
}

TEST(Gradients, APassThatIsNotThereIsNamed) {
  EXPECT_EQ(code_of([&] { OptimizationPasses().disable("fusing"); }), ErrorCode::invalid_argument);
}

TEST(Gradients, AreSumsOverSamples) {
  const Graph network = make_model("lenet", DataSpec::of_images(1, 8, 8, 4));
  const std::vector<double> images = wavy(7 * 64);
  const std::vector<std::int32_t> labels = cycling_labels(7, 4);
  Trainee trainee(network);
  const auto gradients_of = [&](std::int64_t first, std::int64_t count) {
    trainee.differentiate(images.data() + first * 64, labels.data() + first, count);
    return trainee.gradients;
  };
  const std::vector<double> whole = gradients_of(0, 7);
  const std::vector<double> begin = gradients_of(0, 3);
  const std::vector<double> end = gradients_of(3, 4);
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], begin[i] + end[i], 1e-13);
}

}  // namespace
}  // namespace lockstep::nn
