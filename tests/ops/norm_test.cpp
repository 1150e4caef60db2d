// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/ops/reference.hpp"
#include "ops/libraries.hpp"
#include "ops/rows.hpp"

/// Tests norms with long sums or cancellation, and empty batches of operators that no other test runs with them.
namespace lockstep::ops::test {
namespace {

std::vector<Row> long_norms() {
  constexpr Shape images{2, 8, 32, 32};
  constexpr Shape tokens{2, 256, 1, 48};
  return {{"layer-norm", LayerNorm{}, {tokens}},
          {"layer-norm-vectors", LayerNorm{}, {{16, 768, 1, 1}}},
          {"layer-norm-sample", LayerNorm{.axes = LayerNorm::Axes::sample}, {images}},
          {"group-norm", GroupNorm{.groups = 2}, {images}}};
}

/// Returns the largest error relative to the largest element.
double error_of(const Values& actual, const Values& expected) {
  double error = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, std::abs(actual[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return error / largest;
}

/// Values are 1000 times as far from zero as from each other. In float32, the mean square minus the square of the mean
/// would lose all digits.
TEST(Norms, AreExactFarFromZero) {
  const auto reference = make_reference_ops();
  const auto all = libraries();
  for (const Row& row : long_norms()) {
    Trial exact(*reference, DType::float64, row);
    for (const auto& ops : all) {
      SCOPED_TRACE(row.name + ", " + std::string(ops->name()));
      Trial actual(*ops, DType::float32, row);
      // Both get the same float32 numbers.
      Tensor& input = *actual.variables()[0];
      for (std::int64_t i = 0; i < input.count(); ++i) {
        input.set(i, 1000 + std::sin(static_cast<double>(i)));
        exact.variables()[0]->set(i, input.get(i));
      }
      for (Trial* trial : {&actual, &exact}) {
        trial->forward();
        trial->backward();
      }
      const auto results = actual.results();
      const auto expected = exact.results();
      // Output gradients are rounded to float32, which shows in sums of them that cancel.
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_LE(error_of(results[i].values, expected[i].values), expected[i].name.ends_with("bias") ? 5e-5 : 1e-6)
            << expected[i].name;
      EXPECT_NEAR(actual.objective(), exact.objective(), 1e-6 * std::sqrt(static_cast<double>(input.count())));
    }
  }
}

TEST(EmptyBatches, GiveZeroGradients) {
  constexpr Shape none{0, 6, 4, 4};
  const std::vector<Row> empty{{"relu6", Pointwise{.kind = Pointwise::Kind::relu6}, {none}},
                               {"gelu", Pointwise{.kind = Pointwise::Kind::gelu}, {none}},
                               {"multiply", Multiply{}, {none, {0, 6, 1, 1}}},
                               {"frozen-batch-norm", FrozenBatchNorm{}, {none}},
                               {"layer-norm", LayerNorm{}, {none}},
                               {"layer-norm-sample", LayerNorm{.axes = LayerNorm::Axes::sample}, {none}},
                               {"group-norm", GroupNorm{.groups = 2}, {none}},
                               {"lstm", Lstm{.hidden = 3, .bidirectional = true}, {{0, 6, 1, 4}}}};
  const auto all = libraries();
  for (const Row& row : empty) {
    for (const auto& ops : all) {
      SCOPED_TRACE(row.name + ", " + std::string(ops->name()));
      Trial trial(*ops, DType::float32, row);
      trial.forward();
      trial.backward();
      for (const Tensor* gradient : trial.gradients())
        EXPECT_EQ(gradient->values(), Values(static_cast<std::size_t>(gradient->count()), 0.0));
      trial.forward(Pass::infer);
    }
  }
}

}  // namespace
}  // namespace lockstep::ops::test
