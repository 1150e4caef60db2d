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

/// What --precision can ask for.
struct Precision {
  std::string_view name = "float32";
  DType reals = DType::float32;  ///< what parameters, their gradients and the optimizer's state are
  std::optional<DType> half;     ///< what values and their gradients are rounded to where they are stored
  double loss_scale = 0;         ///< unless --loss-scale says otherwise
};

/// Their names, for --help.
std::vector<std::string_view> precision_names();
/// @pre it is one of the names
Precision precision_of(std::string_view name);

/// The operators themselves, or made to compute in what the precision asks for: by kernels that store 16 bits where the
/// processor has instructions for them which those kernels use, else emulated.
std::unique_ptr<ops::Ops> in_precision(std::unique_ptr<ops::Ops> ops, const Precision& precision);
/// How it is emulated, as far as it is, and why; empty where it is not.
/// @param ops  as `in_precision` has made them
std::string emulation_of(const Precision& precision, const ops::Ops& ops);

}  // namespace lockstep::train
