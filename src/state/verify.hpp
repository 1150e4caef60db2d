// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "state/state_file.hpp"

namespace lockstep::state {

/// How thoroughly a checkpoint is checked.
enum class Check {
  sizes,      ///< state.json is valid by its own checksum, of the step that the folder's name says, and records the
              ///< files of tensors that are there, each in full length; reads state.json only
  checksums,  ///< also the header of each file, and the checksum of each tensor and of the whole file; reads everything
};

/// Checks a checkpoint and returns its state.json.
/// @throws Error{io} or Error{corrupt} that names the first file, tensor or key at fault; Error{unsupported} for
///         another version of the format
StateFile verify_checkpoint(const std::filesystem::path& checkpoint, Check check);
/// Returns what `verify_checkpoint` throws, as text; empty if the checkpoint is good.
std::string why_refused(const std::filesystem::path& checkpoint, Check check);

/// A checkpoint to resume from.
struct FoundCheckpoint {
  std::optional<std::filesystem::path> path;  ///< none: a fresh start
  std::vector<std::string> refused;           ///< why newer checkpoints were refused, newest first
};
/// Returns the newest checkpoint of a run that is good by its checksums.
/// @throws Error{io} if the folder is unreadable; Error{unsupported} if a newer one is of another version of the format
FoundCheckpoint newest_good_checkpoint(const std::filesystem::path& run_folder);

/// Finds the checkpoint that a user means, without reading it.
/// @param wish  as for `find_checkpoint`, except "auto"
/// @throws Error{io} if there is no such checkpoint
std::filesystem::path locate_checkpoint(const std::string& wish, const std::filesystem::path& run_folder);

/// Finds the checkpoint that a user means, and checks it by its checksums.
/// @param wish  "last" or "best", the links of the run; "auto", the newest good one, if any; or the path of a
///         checkpoint, or of another run, whose `last` is meant
/// @throws Error{io} if there is no such checkpoint; as verify_checkpoint, of "auto" as newest_good_checkpoint
FoundCheckpoint find_checkpoint(const std::string& wish, const std::filesystem::path& run_folder);

}  // namespace lockstep::state
