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

/// The operators themselves, or made to compute in what the precision asks for.
std::unique_ptr<ops::Ops> in_precision(std::unique_ptr<ops::Ops> ops, const Precision& precision);
/// How it is emulated, and why; empty where it is not.
std::string emulation_of(const Precision& precision);

}  // namespace lockstep::train
