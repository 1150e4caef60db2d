// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/train.hpp"

namespace lockstep::train {

/// A value of --precision.
struct Precision {
  std::string_view name = "float32";
  DType reals = DType::float32;  ///< dtype of parameters, their gradients and the optimizer's state
  std::optional<DType> half;     ///< dtype to which activations and their gradients are rounded in memory
  double loss_scale = 0;         ///< overridden by --loss-scale
  bool tf32 = false;             ///< whether a GPU's convolutions may round their operands to TF32
};

/// Returns the names of all precisions, for --help.
std::vector<std::string_view> precision_names();
/// @pre it is one of the names
Precision precision_of(std::string_view name);

/// lockstep's compute libraries.
std::vector<ComputeLibrary> bundled_libraries();
/// Makes the kernels of a compute library in the given precision: native half-precision kernels if they are faster
/// than emulated ones, otherwise these.
/// @param exact  whether to leave out what rounds more
std::unique_ptr<ops::Ops> make_ops(const ComputeLibrary& library, const Precision& precision, int threads, bool exact);
/// Describes which parts are emulated and why; empty if nothing is.
/// @param ops  as returned by `make_ops` or `ops::make_cuda_ops`
std::string emulation_of(const Precision& precision, const ops::Ops& ops);

}  // namespace lockstep::train
