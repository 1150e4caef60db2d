// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/train/cluster/cluster.hpp"
#include "apps/train/console/console.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/trainer/options.hpp"
#include "nn/description/description.hpp"
#include "observe/trace.hpp"

/// What a run reads from its folder and leaves there.
namespace lockstep::train {

/// The paths that a run uses, on every rank.
struct RunFolder {
  std::string path{no_save_dir};      ///< where the run saves; `no_save_dir` if it saves nothing
  std::filesystem::path checkpoints;  ///< where --resume last, best and auto look; empty: nowhere
  std::string metrics;                ///< empty: none are written
  std::string tensorboard;            ///< folder of event files; empty: none are written
  std::string trace;                  ///< empty: none is written
};

/// The files that rank 0 writes. They are opened before training, so that an invalid path is reported at once.
struct RunFiles {
  Reports reports;
  std::optional<observe::TraceFile> trace;
};

/// Reads the options of the run that --resume, or --weights beside --eval-only, means. Rank 0 reads the file.
/// Collective.
/// @return on every rank, nothing if there is no such file, if --resume auto finds no checkpoint, or if --weights names
///         no file of a checkpoint
/// @throws Error{io} on every rank, also if there is no such run or checkpoint
OptionsOfRun read_options_of_run(const World& world, const Options& options);

/// Makes the folder of the run and writes its options there. Collective.
/// @param console  says on rank 0 if the default folder cannot be made and nothing is saved, and which hosts do not see
///        the folder
/// @throws Error{io} on every rank
RunFolder open_run_folder(const Cluster& cluster, const Options& options, const Console& console);

/// Opens the files that rank 0 writes. Files that exist are continued, so that another rank can take over. Collective.
/// @throws Error{io} on every rank
RunFiles open_files(const World& world, const RunFolder& folder);

/// Returns the options of checkpoints, with the texts of `state.json` that say what made it.
trainer::CheckpointOptions checkpoint_options(const Options& options, const RunFolder& folder, const ops::Ops& ops,
                                              const nn::ModelDescription& model);

}  // namespace lockstep::train
