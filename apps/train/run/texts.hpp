// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/model/computation.hpp"
#include "apps/train/run/run.hpp"
#include "lockstep/observe/events.hpp"
#include "lockstep/trainer/trainer.hpp"

namespace lockstep::train {

/// Returns the lines before the first step, which say what is trained and how.
/// @param columns  the length that no line exceeds
std::string header_text(const RunContext& run, const Computation& computation, std::size_t columns);

/// Says how a GPU's memory is used; empty on CPUs.
std::string memory_text(const trainer::Trainer& trainer, std::size_t columns);

/// Returns the result of an evaluation of this many samples.
std::string evaluation_text(std::vector<observe::MetricValue> values, std::int64_t samples);

/// What the trainer does not know about a run.
struct Effort {
  double seconds = 0;         ///< since the program's start
  std::int64_t steps = 0;     ///< since the program's start
  int recoveries = 0;         ///< how often the run has gone on without ranks that had died
  bool lost_metrics = false;  ///< whether the metrics file lacks events
};

/// Summarizes a run, whether or not it was stopped.
std::string summary_text(const RunContext& context, const trainer::Trainer& trainer, const Effort& effort);

}  // namespace lockstep::train
