// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/train/console/stop_signals.hpp"
#include "apps/train/model/model.hpp"
#include "apps/train/run/run_folder.hpp"
#include "lockstep/trainer/trainer.hpp"
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

/// Whether a thread of this rank progresses communication: what --progress-thread says, or means by "auto".
bool has_progress_thread(const RunContext& run);

/// The last stage of a run: opens its folder, connects the ranks, trains or evaluates, and reports. Collective.
/// @param signals  begins to request an orderly end once the training begins
/// @return the exit code
int run(const Options& options, const Cluster& cluster, const Data& data, const ModelOnDevice& model, Console& console,
        StopSignals& signals, Clock::time_point begin);

/// Continues from the checkpoint that --resume means. Collective.
/// @param library  the name of the compute library for users
/// @return on rank 0, lines that say from which one, and why newer ones were refused; empty without --resume
std::string resume(const RunContext& context, trainer::Trainer& trainer, const std::string& library);

/// Loads the weights that --weights, or with --eval-only --resume, means, unless the run has been resumed. Collective.
/// @return on rank 0, lines that say which tensors were loaded; empty if none were
/// @throws as Trainer::load_weights
std::string load_weights(const RunContext& run, trainer::Trainer& trainer);

}  // namespace lockstep::train
