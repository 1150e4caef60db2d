// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/train/cluster/cluster.hpp"
#include "apps/train/console/console.hpp"
#include "apps/train/console/stop_signals.hpp"
#include "apps/train/data/data.hpp"
#include "apps/train/model/model.hpp"
#include "apps/train/options/options.hpp"
#include "apps/train/run/run_folder.hpp"
#include "observe/trace.hpp"

namespace lockstep::train {

/// What the stages of a run have decided, and where it reports. All of it outlives the training.
struct RunContext {
  const Options& options;
  const Cluster& cluster;
  const Data& data;
  const ModelOnDevice& model;
  const RunFolder& folder;
  Console& console;
  observe::TraceRecorder* recorder;  ///< may be null
  Clock::time_point begin;           ///< when the program began, for --max-time
};

/// The last stage of a run: opens its folder, connects the ranks, trains or evaluates, and reports. Collective.
/// @param signals  begins to request an orderly end once the training begins
/// @return the exit code
int run(const Options& options, const Cluster& cluster, const Data& data, const ModelOnDevice& model, Console& console,
        StopSignals& signals, Clock::time_point begin);

}  // namespace lockstep::train
