// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "apps/train/options.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "observe/metrics_file.hpp"
#include "observe/trace.hpp"

/// What a run reads from its folder and leaves there.
namespace lockstep::train {

/// The files that rank 0 writes. They are opened before training, so that an invalid path is reported at once.
struct RunFiles {
  std::optional<observe::MetricsFile> metrics;
  std::optional<observe::TraceFile> trace;
};

/// Finds the path of the file that rank 0 writes if any rank requests it. Collective.
/// @return the path on every rank; empty if no rank requests it
/// @throws Error{mismatch} on every rank if ranks have different paths
std::string agreed_path(const World& world, const std::string& option, const std::string& mine);

/// Reads the options of the run that --resume, or --weights beside --eval-only, means. Rank 0 reads the file.
/// Collective.
/// @return on every rank, nothing if there is no such file, if --resume auto finds no checkpoint, or if --weights names
///         no file of a checkpoint
/// @throws Error{io} on every rank, also if there is no such run or checkpoint
OptionsOfRun read_options_of_run(const World& world, const Options& options);

/// Makes the folder of the run, writes its options there, and opens the files. Collective.
/// @param options  --save-dir and --metrics become the paths in use, on every rank
/// @param notice   hears on rank 0 that the default folder cannot be made and nothing is saved, and which hosts do not
///        see the folder
/// @throws Error{io} on every rank
RunFiles open_run_folder(const World& world, Options& options, const std::function<void(std::string_view)>& notice);

/// Opens the files that rank 0 writes. Files that exist are continued, so that another rank can take over. Collective.
/// @throws Error{io} on every rank
RunFiles open_files(const World& world, const Options& options);

/// Returns the options of checkpoints, with the texts of `state.json` that say what made it.
trainer::CheckpointOptions checkpoint_options(const Options& options, const ops::Ops& ops);

/// Continues from the checkpoint that --resume means. Collective.
/// @return on rank 0, lines that say from which one, and why newer ones were refused; empty without --resume
std::string resume(trainer::Trainer& trainer, const Options& options);

/// Loads the weights that --weights, or with --eval-only --resume, means, unless the run has been resumed. Collective.
/// @return on rank 0, lines that say which tensors were loaded; empty if none were
/// @throws as Trainer::load_weights
std::string load_weights(const World& world, trainer::Trainer& trainer, const Options& options);

}  // namespace lockstep::train
