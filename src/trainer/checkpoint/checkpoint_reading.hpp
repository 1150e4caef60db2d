// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "state/state_file.hpp"
#include "trainer/replica/store.hpp"

// Reads checkpoints and files of weights: rank 0 reads the files, and broadcasts what it reads.
namespace lockstep::trainer {

/// A checkpoint that was found.
struct OpenedCheckpoint {
  std::filesystem::path path;            ///< on rank 0
  std::vector<std::string> refused;      ///< on rank 0: why newer checkpoints were refused
  std::optional<state::StateFile> file;  ///< the same on every rank; none if there is no checkpoint
};

/// Finds the checkpoint that a user means, on rank 0, and reads its `state.json`. Collective.
/// @param wish    "last", "best", "auto" or a path; only for "auto" there may be none
/// @param folder  the folder of the run
/// @param other   another folder of the run, into which "auto" looks, too; empty: none
/// @throws Error{io} or Error{corrupt} on every rank
OpenedCheckpoint open_checkpoint(ProcessGroup& group, const std::string& wish, const std::filesystem::path& folder,
                                 const std::filesystem::path& other);

/// Overwrites the store with the tensors of a checkpoint, which rank 0 reads. Collective.
/// @throws Error{io} or Error{corrupt} on every rank; Error{mismatch} on every rank if the tensors are not the store's.
///         Then nothing has changed, unless a file became unreadable meanwhile
void load_tensors(ProcessGroup& group, const std::filesystem::path& path, Store& store);

/// Overwrites parameters and running statistics with the tensors of a file, which rank 0 reads; EMA weights begin with
/// the new parameters. Collective.
/// @throws as Trainer::load_weights
LoadedWeights load_weights(ProcessGroup& group, const std::filesystem::path& path, Store& store, WeightsMatch match);

}  // namespace lockstep::trainer
