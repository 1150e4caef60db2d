// SPDX-License-Identifier: Apache-2.0
// Compares the errors of oneDNN's float32 gradients against the reference in float64 with PyTorch's errors at the same
// weights and batches, which mpi-scripts/parity/parity.sh --record-float32 writes to pytorch_float32.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/drawn_run.hpp"
#include "nn/recorded_runs.hpp"

namespace lockstep::nn {
namespace {

/// Makes a model that computes gradients of recorded batches, without updates.
template <typename Real>
DrawnRun<Real> drawn_run(const nlohmann::json& recorded, std::unique_ptr<ops::Ops> ops) {
  const DataSpec data = data_of(recorded);
  return {make_model(recorded.at("model").get<std::string>(), data),
          data.classes,
          {.batch = recorded.at("batch"), .seed = recorded.at("seed"), .optimizer = std::nullopt},
          std::move(ops)};
}

/// Returns the initial weights, with the recorded biases, which keep this batch's ReLUs and max-pools away from inputs
/// where rounding would decide.
std::vector<float> weights_for(const nlohmann::json& batch, const Layout& layout, std::vector<float> initial) {
  for (const auto& [name, values] : batch.at("biases").items()) {
    const auto slot = std::find_if(layout.tensors().begin(), layout.tensors().end(),
                                   [&name = name](const TensorSlot& tensor) { return tensor.name == name; });
    if (slot == layout.tensors().end() || slot->count.value != static_cast<std::int64_t>(values.size())) {
      ADD_FAILURE() << "the model has no " << name << " of " << values.size() << " elements";
      continue;
    }
    std::transform(values.begin(), values.end(), initial.begin() + slot->offset.value,
                   [](const nlohmann::json& value) { return static_cast<float>(value.get<double>()); });
  }
  return initial;
}

/// Returns the L2 norm of each tensor, or of its difference from another.
std::vector<double> norms_of(const Layout& layout, const std::vector<double>& values,
                             const std::vector<float>& subtracted = {}) {
  std::vector<double> norms;
  for (const TensorSlot& slot : layout.tensors()) {
    double squares = 0;
    for (auto i = static_cast<std::size_t>(slot.offset.value), end = i + static_cast<std::size_t>(slot.count.value);
         i < end; ++i) {
      const double value = values[i] - (subtracted.empty() ? 0.0 : static_cast<double>(subtracted[i]));
      squares += value * value;
    }
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

/// Returns each tensor's distance in units of its norm, or of 1e-4 of the norm of all tensors if its own is only
/// rounding error.
std::vector<double> distances(const Layout& layout, const std::vector<float>& fast, const std::vector<double>& exact) {
  std::vector<double> errors = norms_of(layout, exact, fast);
  const std::vector<double> norms = norms_of(layout, exact);
  double all = 0;
  for (const double norm : norms) all = std::hypot(all, norm);
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] /= std::max(norms[i], 1e-4 * all);
  return errors;
}

/// Returns each tensor's median over the batches.
std::vector<double> medians(const std::vector<std::vector<double>>& of_batches) {
  std::vector<double> found;
  for (std::size_t tensor = 0; tensor < of_batches.front().size(); ++tensor) {
    std::vector<double> values;
    for (const std::vector<double>& of_batch : of_batches) values.push_back(of_batch[tensor]);
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    found.push_back(values[values.size() / 2]);
  }
  return found;
}

struct Variant {
  const char* name;
  bool exact;
  double bound;  ///< bound of the distance ÷ PyTorch's distance
};

constexpr Variant variants[] = {{"with --exact", true, 3}, {"without --exact", false, 30}};

class Float32 : public testing::TestWithParam<RecordedRun> {};

TEST_P(Float32, GradientsAreAboutAsNearToFloat64AsPyTorchs) {
  const nlohmann::json& recorded = GetParam().of;
  const nlohmann::json& batches = recorded.at("batches");
  DrawnRun<double> reference = drawn_run<double>(recorded, ops::make_reference_ops());
  const Layout& layout = reference.model.parameters();
  const std::vector<double> theirs = recorded.at("distances");
  ASSERT_EQ(theirs.size(), layout.tensors().size());
  std::vector<std::vector<double>> ours[std::size(variants)];
  DrawnRun<float> fast[] = {drawn_run<float>(recorded, ops::make_onednn_ops(1, variants[0].exact)),
                            drawn_run<float>(recorded, ops::make_onednn_ops(1, variants[1].exact))};
  for (const OperatorReport& op : fast[0].model.operators(recorded.at("batch"))) {
    EXPECT_EQ(op.algorithm.find("wino"), std::string::npos) << op.name << " with --exact: " << op.algorithm;
  }
  const std::vector<float> initial = fast[0].parameters;
  for (const nlohmann::json& batch : batches) {
    const std::vector<float> weights = weights_for(batch, layout, initial);
    std::copy(weights.begin(), weights.end(), reference.parameters.begin());
    reference.step(batch.at("number"));
    for (std::size_t i = 0; i < std::size(variants); ++i) {
      std::copy(weights.begin(), weights.end(), fast[i].parameters.begin());
      fast[i].step(batch.at("number"));
      ours[i].push_back(distances(layout, fast[i].gradients, reference.gradients));
    }
  }
  for (std::size_t i = 0; i < std::size(variants); ++i) {
    const std::vector<double> of_tensors = medians(ours[i]);
    for (std::size_t tensor = 0; tensor < theirs.size(); ++tensor) {
      EXPECT_LE(of_tensors[tensor], variants[i].bound * theirs[tensor])
          << layout.tensors()[tensor].name << ' ' << variants[i].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Float32, testing::ValuesIn(recorded_runs(LOCKSTEP_PYTORCH_FLOAT32)), name_of);

}  // namespace
}  // namespace lockstep::nn
