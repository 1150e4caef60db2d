// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace lockstep::trainer {

/// When and where a run saves checkpoints. docs/checkpoints.md describes the files.
struct CheckpointOptions {
  std::filesystem::path folder;  ///< the folder of the run; rank 0 writes into its folder `checkpoints`
  /// Folder of a run, on another file system for instance, that gets a checkpoint if `folder` cannot; empty: none.
  std::filesystem::path fallback = {};
  std::int64_t epochs = 1;  ///< epochs from one checkpoint to the next; 0: none because of epochs. The end has one, too
  std::int64_t steps = 0;   ///< steps from one checkpoint to the next; 0: none because of steps
  int keep = 3;             ///< number of newest checkpoints that stay, beside the best one
  /// More texts for `state.json`, by section and name.
  std::map<std::string, std::map<std::string, std::string>> notes = {};
};

}  // namespace lockstep::trainer
