// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lockstep/nn/models.hpp"
#include "nn/trainee.hpp"

namespace lockstep::nn {
namespace {

constexpr std::int64_t samples = 5;

/// Every parameter's gradient against central differences of the whole model's loss.
void expect_gradients_are_derivatives(const Network& network) {
  const std::vector<double> images = wavy(samples * network.image().count());
  const std::vector<std::int32_t> labels = cycling_labels(samples, static_cast<std::int32_t>(network.classes()));
  Trainee trainee(network);
  // Batch norm's gamma and beta away from 1 and 0, where mistakes would hide.
  const std::vector<double> shift = wavy(static_cast<std::int64_t>(trainee.parameters.size()), 0.5);
  for (std::size_t i = 0; i < shift.size(); ++i) trainee.parameters[i] += 0.1 * shift[i];
  const auto loss = [&] { return trainee.model.forward(images.data(), labels.data(), samples, true).loss_sum; };
  loss();
  SilentSink sink;
  trainee.model.backward(sink);
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
      const double gradient = trainee.gradients[static_cast<std::size_t>(tensor.offset.value + i)];
      EXPECT_NEAR(gradient, (above - below) / (2 * h), 1e-6) << tensor.name << '[' << i << ']';
    }
  }
}

TEST(Gradients, OfTheKnottyNetworkAreDerivatives) { expect_gradients_are_derivatives(knotty_network()); }

TEST(Gradients, OfTheFusedKnottyNetworkAreDerivatives) {
  expect_gradients_are_derivatives(fuse_activations(knotty_network()));
}

TEST(Gradients, OfASmallLenetAreDerivatives) { expect_gradients_are_derivatives(make_model("lenet", {1, 2, 6, 5}, 3)); }

TEST(Gradients, FusionChangesNoBit) {
  const Network network = knotty_network();
  const std::vector<double> images = wavy(samples * network.image().count());
  const std::vector<std::int32_t> labels = cycling_labels(samples, 3);
  Trainee plain(network);
  Trainee fused(fuse_activations(network));
  ASSERT_LT(fused.model.network().layers().size(), network.layers().size());
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(plain.step(images, labels, 0.05), fused.step(images, labels, 0.05));
    EXPECT_EQ(plain.gradients, fused.gradients);
  }
  EXPECT_EQ(plain.parameters, fused.parameters);
  EXPECT_EQ(plain.state, fused.state);
}

TEST(Gradients, AreSumsOverSamples) {
  const Network network = make_model("lenet", {1, 1, 8, 8}, 4);
  const std::vector<double> images = wavy(7 * 64);
  const std::vector<std::int32_t> labels = cycling_labels(7, 4);
  Trainee trainee(network);
  SilentSink sink;
  const auto gradients_of = [&](std::int64_t first, std::int64_t count) {
    trainee.model.forward(images.data() + first * 64, labels.data() + first, count, true);
    trainee.model.backward(sink);
    return trainee.gradients;
  };
  const std::vector<double> whole = gradients_of(0, 7);
  const std::vector<double> begin = gradients_of(0, 3);
  const std::vector<double> end = gradients_of(3, 4);
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], begin[i] + end[i], 1e-13);
}

}  // namespace
}  // namespace lockstep::nn
