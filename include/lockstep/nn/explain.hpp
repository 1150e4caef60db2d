// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/model.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// All operators of a step in the order in which they run.
struct StepReport {
  ops::MachineLimits limits;
  std::vector<OperatorReport> operators;
  std::int64_t samples = 0;
  Bytes activations;  ///< memory of activations and their gradients for the samples
};

/// Measures steps of a temporary model on random inputs (integers are 0), with updates at a learning rate of 0.
/// @param samples  positive
/// @cost  memory as for training; the time of 20 steps
/// @throws as Model
StepReport explain_step(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples,
                        OptimizationPasses passes = {});

/// The report as a table whose lines have at most `columns` characters. @pre columns is at least 80
std::string to_text(const StepReport& report, std::size_t columns = 100);

}  // namespace lockstep::nn
