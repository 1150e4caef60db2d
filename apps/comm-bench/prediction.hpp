// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/collectives/choice/selection.hpp"

namespace lockstep::comm_bench {

/// What `auto` would do on a cluster that need not exist.
struct PredictionQuestion {
  collectives::Selection selection;  ///< the cluster and its prices
  std::vector<Bytes> sizes;
  std::optional<double> compute_seconds;  ///< of one step on one rank
  double overlap = 0;                     ///< the part of `compute_seconds` behind which communication can hide
};

/// compute / (compute + exposed), where `exposed` is what `overlap · compute` does not hide of the communication.
double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds);

/// For one size all that `auto` chooses between, for several the choice at each; with the efficiency where the compute
/// time is known.
std::string prediction_text(const PredictionQuestion& question);

}  // namespace lockstep::comm_bench
