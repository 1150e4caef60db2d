// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/choice/cluster_cost.hpp"

namespace lockstep::comm_bench {

/// A cluster that need not exist.
struct PredictionQuestion {
  collectives::EqualNodes cluster;
  collectives::CostModel model;  ///< `remote` is a node's link, which its ranks share
  std::vector<Bytes> sizes;
  std::optional<double> compute_seconds;  ///< of one step on one rank
  double overlap = 0;                     ///< the part of `compute_seconds` behind which communication can hide
};

/// What an all-reduce would take by one algorithm.
struct Prediction {
  std::string algorithm;
  double seconds = 0;
};

/// Every algorithm by its closed formula, the least first. A node's ranks share its link: an algorithm in which all of
/// them send at once (exchanges between nodes, lanes) gives each an equal part of the bandwidth; rings and trees
/// through the ranks in their order use it one rank at a time.
std::vector<Prediction> predict(const PredictionQuestion& question, Bytes size);

/// compute / (compute + exposed), where `exposed` is what `overlap · compute` does not hide of the communication.
double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds);

/// For one size all algorithms, for several the choice at each; with the efficiency where the compute time is known.
std::string prediction_text(const PredictionQuestion& question);

}  // namespace lockstep::comm_bench
