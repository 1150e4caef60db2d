// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/options.hpp"
#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/trainer/trainer.hpp"

namespace lockstep::train {

/// The facts of a run that the header shows beside its options.
struct RunDescription {
  int ranks = 1;
  int threads = 1;             ///< per rank
  std::string why_cpu = {};    ///< why --device auto has not chosen GPUs; empty if it has, or was not given
  std::int64_t steps = 1;      ///< of the whole run
  std::string kernels = {};    ///< a line about --kernels; empty if that was not given
  std::string emulation = {};  ///< as returned by emulation_of()
};

/// Returns the lines before the first step, which say what is trained and how.
/// @param columns  the length that no line exceeds
std::string header_text(const Options& options, const RunDescription& run, const data::DatasetPair& data,
                        const nn::Graph& graph, std::size_t columns);

/// Says how a GPU's memory is used; empty on CPUs.
std::string memory_text(const trainer::Trainer& trainer, std::size_t columns);

/// The result of an evaluation of this many samples.
std::string evaluation_text(std::vector<observe::MetricValue> values, std::int64_t samples);

/// Summarizes a run, whether or not it was stopped.
/// @param seconds, steps  since the program's start
/// @param recoveries    how often it has gone on without ranks that had died
/// @param lost_metrics  whether the metrics file lacks events
std::string summary_text(const Options& options, const trainer::Trainer& trainer, double seconds, std::int64_t steps,
                         int recoveries, bool lost_metrics);

}  // namespace lockstep::train
