// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/choice/selection.hpp"

namespace lockstep::comm_bench {

/// A question about the choices of `auto` on a cluster that need not exist.
struct PredictionQuestion {
  collectives::Selection selection;  ///< the cluster and its prices
  std::vector<Bytes> sizes;
  std::optional<double> compute_seconds;  ///< time of one step on one rank
  double overlap = 0;                     ///< the fraction of `compute_seconds` that can overlap with communication
};

/// Returns compute / (compute + exposed), where `exposed` is the communication that exceeds `overlap · compute`.
double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds);

/// For one size, lists all candidates of `auto`; for several sizes, lists the choice at each. The efficiency is
/// included if the compute time is known.
std::string prediction_text(const PredictionQuestion& question);

}  // namespace lockstep::comm_bench
