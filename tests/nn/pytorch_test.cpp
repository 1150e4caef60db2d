// SPDX-License-Identifier: Apache-2.0
// Compares every model, in float64 on the reference operators, with PyTorch's results for the same weights and batches,
// which mpi-scripts/parity/parity.sh --record writes to pytorch_models.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/drawn_run.hpp"
#include "nn/recorded_runs.hpp"

namespace lockstep::nn {
namespace {

constexpr double bound = 1e-9;

/// The norm, and a sum with weights between −1 and 1.
struct TensorFigures {
  double norm = 0;
  double sum = 0;
};

TensorFigures figures_of(std::span<const double> values) {
  TensorFigures figures;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += values[i] * values[i];
    figures.sum += values[i] * (static_cast<double>(i * 7919 % 101) / 50 - 1);
  }
  figures.norm = std::sqrt(squares);
  return figures;
}

/// Expects each tensor's figures to be within the bound of its norm. Tensors that should be zero, such as gradients
/// that a normalization removes, are compared relative to the norm of all tensors.
void expect_figures(const Layout& layout, const std::vector<double>& values, const nlohmann::json& expected,
                    const std::string& what) {
  ASSERT_EQ(expected.size(), layout.tensors().size()) << what;
  double all = 0;
  for (const nlohmann::json& tensor : expected) all = std::hypot(all, tensor.at(0).get<double>());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    const TensorFigures found = figures_of(std::span(values).subspan(static_cast<std::size_t>(slot.offset.value),
                                                                     static_cast<std::size_t>(slot.count.value)));
    const double norm = expected.at(i).at(0);
    const double tolerance = bound * std::max(norm, 1e-4 * all);
    EXPECT_NEAR(found.norm, norm, tolerance) << what << " of " << slot.name;
    EXPECT_NEAR(found.sum, expected.at(i).at(1).get<double>(), tolerance) << what << " of " << slot.name;
  }
}

class PyTorch : public testing::TestWithParam<RecordedRun> {};

TEST_P(PyTorch, TrainsTheSame) {
  const nlohmann::json& recorded = GetParam().of;
  const DataSpec data = data_of(recorded);
  DrawnRun<double> run(make_model(recorded.at("model").get<std::string>(), data), data.classes,
                       {.batch = recorded.at("batch"),
                        .seed = recorded.at("seed"),
                        .learning_rate = recorded.at("learning_rate"),
                        .optimizer = OptimizerOptions{.momentum = recorded.at("momentum")}},
                       ops::make_reference_ops());
  const std::vector<double> losses = recorded.at("losses");
  for (std::size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(run.step(static_cast<std::int64_t>(step)), losses[step], bound * losses[step]) << "step " << step;
    if (step == 0)
      expect_figures(run.model.parameters(), run.gradients, recorded.at("first_gradients"), "first gradient");
  }
  expect_figures(run.model.parameters(), run.parameters, recorded.at("last_parameters"), "last values");
  expect_figures(run.model.state(), run.state, recorded.at("last_state"), "last values");
}

INSTANTIATE_TEST_SUITE_P(Models, PyTorch, testing::ValuesIn(recorded_runs(LOCKSTEP_PYTORCH_MODELS)), name_of);

TEST(PyTorchModels, HaveARunOfEveryModel) {
  const std::vector<RecordedRun> runs = recorded_runs(LOCKSTEP_PYTORCH_MODELS);
  for (const Models models; const std::string_view name : models.names()) {
    const bool found =
        std::any_of(runs.begin(), runs.end(), [&](const auto& run) { return run.of.at("model") == name; });
    EXPECT_TRUE(found) << "nothing holds '" << name
                       << "' to PyTorch; add it to mpi-scripts/parity/torch_models.py and run "
                       << "mpi-scripts/parity/parity.sh --record " << name;
  }
}

}  // namespace
}  // namespace lockstep::nn
