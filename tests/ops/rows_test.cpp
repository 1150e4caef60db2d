// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"

/// Tests every operator row by row: the reference in float64 against central differences and against PyTorch, and every
/// back end in float32 against the reference in float64.
namespace lockstep::ops::test {
namespace {

std::string row_name(const testing::TestParamInfo<Row>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Compares float32 sums of a few thousand products, relative to the tensor's largest element; values that cancel are
/// compared on a scale of 1.
void expect_near(const Trial::Named& actual, const Trial::Named& expected, const std::string& what) {
  constexpr double tolerance = 5e-5;
  double largest = 0;
  double error = 0;
  ASSERT_EQ(actual.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    largest = std::max(largest, std::abs(expected.values[i]));
    error = std::max(error, std::abs(actual.values[i] - expected.values[i]));
    ASSERT_FALSE(std::isnan(actual.values[i])) << what << ": " << expected.name << " element " << i;
  }
  EXPECT_LE(error, tolerance * (largest < 1e-9 ? 1 : largest)) << what << ": " << expected.name;
}

class Rows : public testing::TestWithParam<Row> {
 protected:
  static void compare(Ops& ops, bool native) {
    const auto exact_ops = make_reference_ops();
    Trial exact(*exact_ops, DType::float64, GetParam());
    Trial fast(ops, DType::float32, GetParam(), native);
    const std::string what = std::string(ops.name()) + (native ? ", its own formats" : ", plain formats");
    for (int round = 0; round < 2; ++round) {  // the second time with used memory
      for (Trial* trial : {&exact, &fast}) {
        trial->forward();
        trial->backward();
      }
      const auto results = fast.results();
      const auto expected = exact.results();
      for (std::size_t i = 0; i < expected.size(); ++i) expect_near(results[i], expected[i], what);
      expect_near({"objective", {fast.objective()}}, {"objective", {exact.objective()}}, what);
    }
    exact.forward(Pass::infer);
    fast.forward(Pass::infer);
    expect_near({"objective", {fast.objective()}}, {"objective", {exact.objective()}}, what + ", evaluation");
  }
};

TEST_P(Rows, ReferenceInFloat32) { compare(*make_reference_ops(), false); }

TEST_P(Rows, OneDnn) {
  const auto one = make_onednn_ops(1);
  compare(*one, false);
  compare(*one, true);
}

TEST_P(Rows, OneDnnOnTwoThreads) { compare(*make_onednn_ops(2), true); }

TEST_P(Rows, AreDerivatives) {
  const auto ops = make_reference_ops();
  if (!GetParam().has_derivatives || !signature_of(GetParam().op, GetParam().inputs).has_backward) return;
  Trial trial(*ops, DType::float64, GetParam());
  trial.forward();
  trial.backward();
  std::vector<Values> gradients;
  for (const Tensor* gradient : trial.gradients()) gradients.push_back(gradient->values());
  const std::vector<Tensor*> variables = trial.variables();
  for (std::size_t k = 0; k < variables.size(); ++k) {
    Tensor& variable = *variables[k];
    const std::int64_t stride = std::max<std::int64_t>(1, variable.count() / 23);
    for (std::int64_t i = 0; i < variable.count(); i += stride) {
      constexpr double h = 1e-5;
      const double at = variable.get(i);
      variable.set(i, at + h);
      trial.forward();
      const double above = trial.objective();
      variable.set(i, at - h);
      trial.forward();
      const double below = trial.objective();
      variable.set(i, at);
      const double gradient = gradients[k][static_cast<std::size_t>(i)];
      EXPECT_NEAR((above - below) / (2 * h), gradient, 2e-7 * std::max(1.0, std::abs(gradient)))
          << "variable " << k << ", element " << i;
    }
  }
}

class RowsInPyTorch : public testing::TestWithParam<Row> {};

/// mpi-scripts/parity/operators-pytorch.py has recorded PyTorch's results in float64.
TEST_P(RowsInPyTorch, Agree) {
  std::ifstream file(LOCKSTEP_PYTORCH_ROWS);
  const nlohmann::json all = nlohmann::json::parse(file);
  ASSERT_TRUE(all.contains(GetParam().name)) << "run mpi-scripts/parity/operators-pytorch.py";
  const auto expected = all[GetParam().name].get<std::vector<double>>();
  const auto ops = make_reference_ops();
  Trial trial(*ops, DType::float64, GetParam());
  trial.forward();
  trial.backward();
  const std::vector<double> digest = trial.digest();
  ASSERT_EQ(digest.size(), expected.size());
  for (std::size_t i = 0; i < digest.size(); ++i)
    EXPECT_NEAR(digest[i], expected[i], 1e-9 * std::max(1.0, std::abs(expected[i]))) << trial.results()[i].name;
}

std::vector<Row> rows_in_pytorch() {
  std::vector<Row> found;
  std::copy_if(rows().begin(), rows().end(), std::back_inserter(found), [](const Row& row) { return row.in_pytorch; });
  return found;
}

INSTANTIATE_TEST_SUITE_P(Ops, Rows, testing::ValuesIn(rows()), row_name);
INSTANTIATE_TEST_SUITE_P(Ops, RowsInPyTorch, testing::ValuesIn(rows_in_pytorch()), row_name);

TEST(RowTable, HasARowForEveryOperator) {
  std::vector<bool> seen(std::variant_size_v<Operator>);
  for (const Row& row : rows()) seen[row.op.index()] = true;
  const std::size_t custom = Operator(Custom{}).index();
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(seen[i] || i == custom) << "operator " << i;
}

TEST(RowTable, HandsOverFormatsOfOneDnnsOwn) {
  const auto ops = make_onednn_ops(1);
  int native = 0;
  for (const Row& row : rows()) native += Trial(*ops, DType::float32, row, true).native_inputs();
  EXPECT_GT(native, 5) << "or the comparison in its own formats shows nothing";
}

}  // namespace
}  // namespace lockstep::ops::test
