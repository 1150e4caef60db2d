// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::reference {

/// Runs of neighboring elements that are normalized together, so many in a sample. Each has rows, and each row its own
/// weight; or each element has, and then there is one row.
struct Runs {
  std::int64_t of_sample = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  bool weights_of_elements = false;
  double epsilon = 0;

  [[nodiscard]] std::int64_t length() const { return rows * columns; }
};

/// (x − mean) ÷ √(variance + epsilon) · weight + bias of each run.
std::unique_ptr<Kernel> make_run_norm(const Runs& runs, std::span<const Format> in);

}  // namespace lockstep::ops::reference
