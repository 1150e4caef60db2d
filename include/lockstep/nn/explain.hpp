// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/network.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// One operator of a training step: what it is, what it has to do at least, and how long it takes.
struct OperatorReport {
  std::string name;       ///< "forward conv1", "backward conv1"
  std::string operation;  ///< "convolution 3×3, ReLU"
  std::string result;     ///< of forward: extents and layout, "64×32×28×28 nChw16c"
  std::string algorithm;  ///< the back end's name for its kernel
  Bytes bytes;            ///< each tensor read or written once
  std::int64_t flops = 0;
  double seconds = 0;  ///< median

  /// How much of what the machine can do at best it reaches: the larger of the two bounds on its time, ÷ its time.
  /// Above 1 where tensors stay in caches, or an algorithm multiplies less, as Winograd's does.
  [[nodiscard]] double share_of(const ops::MachineLimits& limits) const;
};

/// All operators of a step in the order in which they run, the loss apart.
struct StepReport {
  ops::MachineLimits limits;
  std::vector<OperatorReport> operators;
};

/// Runs steps of a model of its own on drawn images, without updates, and measures them.
/// @param batch  positive
/// @cost  memory as for training; the time of 20 steps
/// @throws as Model
StepReport explain_step(const Network& network, ops::Ops& ops, DType dtype, std::int64_t batch);

/// A table for people.
std::string to_text(const StepReport& report);

}  // namespace lockstep::nn
