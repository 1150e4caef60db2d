// SPDX-License-Identifier: Apache-2.0
// What the rows do not show of norms, losses and embeddings on a GPU. Sums over many blocks are compared with the
// reference in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "lockstep/ops/reference.hpp"
#include "ops/libraries.hpp"
#include "ops/rows.hpp"

namespace lockstep::ops::test {
namespace {

double error_of_values(const Values& actual, const Values& expected) {
  double error = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, std::abs(actual[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return error / largest;
}

/// Runs a row on a GPU and on the reference, with the first input moved away from zero.
/// @return the largest error of each result, relative to its largest element
std::vector<std::pair<std::string, double>> errors_of(const Row& row, double moved) {
  const auto cuda = std::move(libraries().front());
  const auto reference = make_reference_ops();
  Trial actual(*cuda, DType::float32, row);
  Trial exact(*reference, DType::float64, row);
  Tensor& input = *actual.variables()[0];
  for (std::int64_t i = 0; i < input.count(); ++i) {
    input.set(i, input.get(i) + moved);
    exact.variables()[0]->set(i, input.get(i));
  }
  for (Trial* trial : {&actual, &exact}) {
    trial->change_output_gradient([](double x) { return static_cast<double>(static_cast<float>(x)); });
    trial->forward();
    trial->backward();
  }
  std::vector<std::pair<std::string, double>> errors;
  const auto results = actual.results();
  const auto expected = exact.results();
  for (std::size_t i = 0; i < expected.size(); ++i)
    errors.emplace_back(expected[i].name, error_of_values(results[i].values, expected[i].values));
  if (!exact.output().empty()) errors.emplace_back("output", error_of_values(actual.output(), exact.output()));
  return errors;
}

/// A channel has 163,840 values, in more parts than a block has threads to merge them, and far from 0, where float32
/// sums are less exact than this.
TEST(BatchNormOnGpus, IsExactWithManyValuesFarFromZero) {
  for (const auto& [name, error] : errors_of({"batch-norm", BatchNorm{}, {{40, 4, 64, 64}}}, 4))
    EXPECT_LE(error, name == "gradient of bias" ? 5e-5 : 5e-7) << name;  // the output gradients cancel
}

TEST(SumsOnGpus, OverManyPartsAreNearTheReference) {
  const std::vector<Row> rows{
      {"group-norm", GroupNorm{.groups = 2}, {{2, 6, 40, 40}}},
      {"layer-norm", LayerNorm{}, {{2, 5, 1, 2100}}},
      {"layer-norm-sample", LayerNorm{.axes = LayerNorm::Axes::sample}, {{520, 3, 2, 2}}},
      {"cross-entropy", CrossEntropy{}, {{1100, 40, 1, 1}, {1100, 1, 1, 1}}, {}, 40},
      {"binary-cross-entropy", BinaryCrossEntropy{}, {{8, 3, 20, 20}, {8, 3, 20, 20}}, {Domain::any, Domain::unit}},
      {"dice", Dice{}, {{2, 2, 40, 40}, {2, 2, 40, 40}}, {Domain::any, Domain::unit}},
      {"embedding", Embedding{.entries = 9, .features = 5}, {{30, 1, 1, 30}}, {}, 9},
      {"multiply", Multiply{}, {{2, 5, 40, 40}, {2, 5, 1, 1}}},
  };
  for (const Row& row : rows)
    for (const auto& [name, error] : errors_of(row, 0)) EXPECT_LE(error, 2e-5) << row.name << ": " << name;
}

TEST(EmbeddingOnGpus, ReportsTheFirstTokenThatIsNoEntry) {
  const auto ops = std::move(libraries().front());
  const auto kernel =
      ops->make(Embedding{.entries = 3, .features = 2}, std::vector{Format::plain({2, 1, 1, 3}, DType::int32)});
  const std::vector<std::int32_t> tokens{2, 1, 0, 1, 9, -1};
  const std::vector<float> table{1, 2, 3, 4, 5, 6};
  const std::array<const void*, 1> inputs{tokens.data()};
  const std::array<const void*, 1> parameters{table.data()};
  std::vector<float> out(12);
  Fault fault;
  kernel->run(Pass::forward,
              {.inputs = inputs, .parameters = parameters, .output = out.data(), .fault = &fault, .node = 4});
  EXPECT_EQ(fault.node, 4);
  EXPECT_EQ(text_of(fault, "sample " + std::to_string(fault.sample)),
            "a token of sample 1 is 9; there are 3 entries, numbered from 0");
  EXPECT_EQ(from_format(*ops, out, kernel->traits().output), (std::vector<float>{5, 3, 1, 6, 4, 2, 3, 1, 1, 4, 2, 2}));
}

/// Without samples, the gradients of parameters and the sums of losses are zero, and nothing is read.
TEST(EmptyBatchesOnGpus, GiveZeros) {
  const auto ops = std::move(libraries().front());
  const Shape none{0, 6, 4, 4};
  for (const Row& row : std::vector<Row>{{"batch-norm", BatchNorm{.activation = Activation::relu}, {none}},
                                         {"batch-norm-add", BatchNorm{.residual = true}, {none, none}},
                                         {"embedding", Embedding{.entries = 3, .features = 4}, {{0, 1, 1, 5}}},
                                         {"resize", Resize{.scale = 2}, {none}},
                                         {"cross-entropy", CrossEntropy{}, {none, {0, 1, 4, 4}}}}) {
    Trial trial(*ops, DType::float32, row);
    trial.forward();
    trial.backward();
    for (const Tensor* gradient : trial.gradients())
      EXPECT_EQ(gradient->values(), Values(static_cast<std::size_t>(gradient->count()), 0.0)) << row.name;
    EXPECT_TRUE(trial.output().empty()) << row.name;
    trial.forward(Pass::infer);
  }
}

}  // namespace
}  // namespace lockstep::ops::test
