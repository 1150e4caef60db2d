// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::train {

/// A value of --precision.
struct Precision {
  std::string_view name = "float32";
  DType reals = DType::float32;  ///< dtype of parameters, their gradients and the optimizer's state
  std::optional<DType> half;     ///< dtype to which activations and their gradients are rounded in memory
  double loss_scale = 0;         ///< overridden by --loss-scale
};

/// Returns the names of all precisions, for --help.
std::vector<std::string_view> precision_names();
/// @pre it is one of the names
Precision precision_of(std::string_view name);

/// Returns operators that compute in the given precision: with native half-precision kernels if the processor has the
/// instructions and the kernels use them, otherwise emulated.
std::unique_ptr<ops::Ops> in_precision(std::unique_ptr<ops::Ops> ops, const Precision& precision);
/// Describes which parts are emulated and why; empty if nothing is.
/// @param ops  as returned by `in_precision`
std::string emulation_of(const Precision& precision, const ops::Ops& ops);

}  // namespace lockstep::train
