// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::reference {

/// Runs of adjacent elements that are normalized together; a sample has `of_sample` runs. Each row of a run has its own
/// weight. With `weights_of_elements` a run is one row, and each of its elements has its own weight.
struct Runs {
  std::int64_t of_sample = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  bool weights_of_elements = false;
  double epsilon = 0;

  [[nodiscard]] std::int64_t length() const { return rows * columns; }
};

/// Makes a kernel that computes (x − mean) ÷ √(variance + epsilon) · weight + bias of each run.
KernelPtr make_run_norm(const Runs& runs, Formats in);

}  // namespace lockstep::ops::reference
