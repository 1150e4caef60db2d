// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/loss_trial.hpp"

/// Tests what the rows of the table do not show of CTC.
namespace lockstep::ops::test {
namespace {

using Logits = std::vector<float>;

LossTrial make_ctc(const Ctc& loss, const std::vector<std::int32_t>& targets, std::int32_t length, std::int32_t steps,
                   const Logits& logits = Logits(12)) {
  const auto count = static_cast<std::int64_t>(targets.size());
  return {loss,
          {{{1, 3, 1, 4}, logits}, {{1, 1, 1, count}, {}, targets}, {{1, 1}, {}, {length}}, {{1, 1}, {}, {steps}}}};
}

TEST(Ctc, CountsPaths) {
  // 10 of the 3⁴ equally likely paths become "1": those with 1 to 4 repetitions and blanks around them.
  EXPECT_NEAR(make_ctc({}, {1, -1}, 1, 4).run(Pass::forward).loss, std::log(81.0 / 10), 1e-6);
  EXPECT_NEAR(make_ctc({}, {1, 1}, 2, 3).run(Pass::forward).loss, std::log(27.0 / 1), 1e-6);
  EXPECT_NEAR(make_ctc({.blank = 2}, {9}, 0, 2).run(Pass::forward).loss, std::log(9.0), 1e-6);
  EXPECT_EQ(make_ctc({}, {1}, 0, 0).run(Pass::forward).loss, 0);
  EXPECT_EQ(make_ctc({}, {1}, 1, 4).run(Pass::normalizer).weight, 1);
}

/// Uses logits with one clear maximum at each step.
bool reads(const std::vector<std::size_t>& path, const std::vector<std::int32_t>& targets, std::int32_t length) {
  Logits logits(12);
  for (std::size_t t = 0; t < path.size(); ++t) logits[4 * path[t] + t] = 1;
  const auto steps = static_cast<std::int32_t>(path.size());
  return make_ctc({}, targets, length, steps, logits).run(Pass::forward).correct == 1;
}

TEST(Ctc, IsRightWhereTheLikeliestClassesReadTheTargets) {
  EXPECT_TRUE(reads({1, 1, 0, 2}, {1, 2}, 2));
  EXPECT_TRUE(reads({1, 0, 1}, {1, 1}, 2));
  EXPECT_TRUE(reads({0, 0}, {2}, 0));
  EXPECT_FALSE(reads({1, 1, 1}, {1, 1}, 2)) << "repetitions are one";
  EXPECT_FALSE(reads({1, 2, 0, 1}, {1, 2}, 2)) << "too much is read";
  EXPECT_FALSE(reads({1, 0, 0, 0}, {1, 2}, 2)) << "too little is read";
  EXPECT_FALSE(reads({2, 1}, {1, 2}, 2));
}

TEST(Ctc, IsInfiniteOrZeroWhereStepsDoNotSuffice) {
  LossTrial trial = make_ctc({}, {1, 1}, 2, 2);
  EXPECT_EQ(trial.run(Pass::forward).loss, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(trial.backward(0)[0]));
  EXPECT_EQ(trial.backward(0, 0), Logits(12, 0.0F));
  LossTrial zero = make_ctc({.zero_infinity = true}, {1, 1}, 2, 2);
  EXPECT_EQ(zero.run(Pass::forward).loss, 0);
  EXPECT_EQ(zero.backward(0), Logits(12, 0.0F));
}

TEST(Ctc, ReportsTargetsAndLengthsThatCannotBe) {
  const auto refuse = [](LossTrial trial, const std::string& part) {
    EXPECT_EQ(trial.run(Pass::forward).loss, 0) << "the sample does not count";
    EXPECT_NE(trial.fault().find(part), std::string::npos) << trial.fault();
  };
  refuse(make_ctc({}, {1}, 2, 4), "sample 0 has 2 targets; it must be between 0 and 1");
  refuse(make_ctc({}, {1}, 1, 5), "sample 0 has 5 steps; it must be between 0 and 4");
  refuse(make_ctc({}, {1}, -1, 4), "-1 targets");
  refuse(make_ctc({}, {3}, 1, 4), "target of sample 0 is 3");
  refuse(make_ctc({}, {0}, 1, 4), "and the blank is no target");
}

TEST(Ctc, CountsAllStepsWithoutTheirNumber) {
  const Logits logits{0.5, -1, 2, 0, 1, 0.25, -0.5, 1, 0, -2, 1.5, 0.75};
  LossTrial with = make_ctc({}, {1, 2}, 2, 4, logits);
  LossTrial without(Ctc{}, {{{1, 3, 1, 4}, logits}, {{1, 1, 1, 2}, {}, {1, 2}}, {{1, 1}, {}, {2}}});
  EXPECT_EQ(without.run(Pass::forward).loss, with.run(Pass::forward).loss);
  EXPECT_EQ(without.backward(0), with.backward(0));
  EXPECT_NE(make_ctc({}, {1, 2}, 2, 3, logits).run(Pass::forward).loss, with.run(Pass::forward).loss);
}

TEST(Ctc, OfAnEmptyBatchIsZero) {
  const auto real = Format::plain({0, 4, 1, 3}, DType::float32);
  const auto length = Format::plain({0, 1, 1, 1}, DType::int32);
  const auto ops = std::move(libraries().front());
  const auto kernel = ops->make(Ctc{}, std::vector{real, Format::plain({0, 1, 1, 2}, DType::int32), length, length});
  const std::vector<const void*> inputs(4);
  const std::vector<void*> gradients(4);
  for (const Pass pass : {Pass::normalizer, Pass::infer, Pass::forward}) {
    LossSums loss_sums;
    kernel->run(pass, {.inputs = inputs, .output = &loss_sums});
    EXPECT_EQ(loss_sums.weight, 0);
    EXPECT_EQ(loss_sums.loss, 0);
  }
  double factor = 1;
  kernel->run(Pass::backward, {.inputs = inputs, .output_gradient = &factor, .input_gradients = gradients});
}

}  // namespace
}  // namespace lockstep::ops::test
