// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/optimizer.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/reference.hpp"

namespace lockstep::nn {
namespace {

class SgdTest : public testing::Test {
 protected:
  static Buffer view(std::vector<double>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::float64};
  }
  void step(SgdOptions options, std::int64_t samples_in_step, double learning_rate) {
    Sgd(*ops, options).step(view(parameters), view(gradients), view(velocity), samples_in_step, learning_rate);
  }

  std::unique_ptr<ops::Ops> ops = ops::make_reference_ops();
  std::vector<double> parameters{1, -2};
  std::vector<double> gradients{8, 4};  // sums over 4 samples: means 2 and 1
  std::vector<double> velocity{0, 0};
};

TEST_F(SgdTest, DividesBySamplesOnce) {
  step({}, 4, 0.5);
  EXPECT_EQ(parameters, (std::vector<double>{0, -2.5}));
}

TEST_F(SgdTest, MomentumAddsUpVelocity) {
  step({.momentum = 0.5}, 4, 0.5);
  step({.momentum = 0.5}, 4, 0.5);  // velocity 2, then 3
  EXPECT_EQ(velocity, (std::vector<double>{3, 1.5}));
  EXPECT_EQ(parameters, (std::vector<double>{1 - 0.5 * (2 + 3), -2 - 0.5 * (1 + 1.5)}));
}

TEST_F(SgdTest, NesterovLooksAhead) {
  step({.momentum = 0.5, .nesterov = true}, 4, 0.5);  // g + 0.5·v with v = g
  EXPECT_EQ(parameters, (std::vector<double>{1 - 0.5 * 3, -2 - 0.5 * 1.5}));
}

TEST_F(SgdTest, WeightDecayPullsToZero) {
  step({.weight_decay = 0.25}, 4, 1);
  EXPECT_EQ(parameters, (std::vector<double>{1 - (2 + 0.25), -2 - (1 - 0.5)}));
}

TEST_F(SgdTest, RefusesWhatCannotBe) {
  EXPECT_THROW(step({}, 0, 0.1), Error);
  EXPECT_THROW(Sgd(*ops, {.momentum = -0.1}), Error);
  EXPECT_THROW(Sgd(*ops, {.weight_decay = -1}), Error);
  EXPECT_THROW(Sgd(*ops, {.nesterov = true}), Error);
  std::vector<double> shorter{0};
  EXPECT_THROW(Sgd(*ops, {}).step(view(parameters), view(gradients), view(shorter), 1, 0.1), Error);
}

}  // namespace
}  // namespace lockstep::nn
