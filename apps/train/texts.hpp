// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "apps/train/options.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/trainer/trainer.hpp"

namespace lockstep::train {

/// What the header says of a run beside its options.
struct RunDescription {
  int ranks = 1;
  int threads = 1;             ///< of each rank
  std::int64_t steps = 1;      ///< of the whole run
  std::string kernels = {};    ///< a line about --kernels; empty where that was not given
  std::string emulation = {};  ///< as emulation_of()
};

/// What is trained and how: lines for the time before the first step.
/// @param columns  which no line exceeds
std::string header_text(const Options& options, const RunDescription& run, const data::DatasetPair& data,
                        const nn::Graph& graph, std::size_t columns);

/// What a run came to, whether or not it was stopped.
/// @param lost_metrics  whether the metrics file lacks events
std::string summary_text(const Options& options, const trainer::Trainer& trainer,
                         const trainer::Trainer::Result& result, double seconds, bool lost_metrics);

}  // namespace lockstep::train
