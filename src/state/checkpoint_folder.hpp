// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_file.hpp"
#include "state/safetensors_file.hpp"
#include "state/state_file.hpp"

namespace lockstep::state {

// The names in a folder of checkpoints, beside step-… .
inline constexpr std::string_view new_prefix = ".new-";          // being written
inline constexpr std::string_view aside_prefix = ".old-";        // being replaced by a new one of the same step
inline constexpr std::string_view discarded_prefix = ".trash-";  // being removed
inline constexpr std::string_view link_prefix = ".link-";        // a link that will replace `last` or `best`
inline constexpr std::string_view unused_prefix = "unused-";     // of a continuation that was given up
inline constexpr std::string_view state_file_name = "state.json";

/// Makes the folder of a run: `wish`, or `wish-2`, `wish-3`, … if that exists. Of processes that do this at the same
/// time, each gets a folder of its own.
/// @throws Error{io} with path, reason and remedy
std::filesystem::path make_run_folder(const std::filesystem::path& wish);

/// A complete checkpoint, as far as its name says.
struct CheckpointEntry {
  std::int64_t step = 0;
  std::filesystem::path path;
};
/// Returns the folder of a run's checkpoints, RUN/checkpoints.
std::filesystem::path checkpoints_of(const std::filesystem::path& run_folder);
/// Returns "step-00012000".
std::string checkpoint_name(std::int64_t step);
/// Returns the step in the name of a checkpoint; nothing if it is no such name.
std::optional<std::int64_t> step_of(const std::string& name);
/// Lists the checkpoints in RUN/checkpoints, newest first; none if the folder is missing. @throws Error{io}
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& run_folder);
/// Returns the checkpoint that the link `last` or `best` names, if it is there. Where the file system has no symbolic
/// links, it is a file with the name. @throws Error{io}
std::optional<CheckpointEntry> linked_checkpoint(const std::filesystem::path& run_folder, const std::string& link);

/// RUN/checkpoints, for the one process that writes there. Other processes may read checkpoints at any time.
///
/// Everything appears under its name by a rename, and after what it names is on disk. So after a crash at any instant,
/// of the process or of the machine, every checkpoint that has a name is whole, and `last` names one. What begins with
/// a dot is under way.
class CheckpointFolder {
 public:
  /// Makes the folder if it is missing, locks it, and puts in order what a crash has left: a checkpoint that was set
  /// aside gets its name back, and unfinished or discarded ones are removed.
  /// @throws Error{io}, also if another process holds the lock
  explicit CheckpointFolder(const std::filesystem::path& run_folder);

  [[nodiscard]] const std::filesystem::path& run_folder() const { return run_folder_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Lets the link `best` name the checkpoint of this step, atomically. A folder in its place is renamed to
  /// "unused-best".
  /// @throws Error{invalid_argument} if there is no such checkpoint; Error{io}
  void link_best(std::int64_t step) { link("best", step); }
  /// Removes all checkpoints but the newest `keep` and those that `last` and `best` name. Only checkpoints whose files
  /// are all there in full length count, so that damaged ones do not push out the last good one.
  /// @param keep  ≥ 1
  /// @return the paths that were removed
  /// @throws Error{invalid_argument}; Error{io}
  std::vector<std::filesystem::path> remove_all_but(int keep);
  /// Declares that the run goes on from the checkpoint of this step: `last` names it, and the checkpoints of later
  /// steps, which belong to a continuation that was given up or are damaged, are renamed to "unused-step-…", so that
  /// they are not taken for the newest. Links that named one of them name it further.
  /// @return the new paths
  /// @throws Error{invalid_argument} if there is no such checkpoint; Error{io}
  std::vector<std::filesystem::path> continue_from(std::int64_t step);

 private:
  friend class NewCheckpoint;
  void put_in_order();
  void link(const std::string& name, std::int64_t step);
  void link_to(const std::string& name, const std::string& target);
  void discard(const std::filesystem::path& checkpoint);

  std::filesystem::path run_folder_;
  std::filesystem::path path_;
  Descriptor lock_;
};

/// Returns the record of a file of tensors, from the parts that all processes have written, in any order.
/// @throws as tensor_checksums
StateFile::Record record_of(const SafetensorsHeader& header, std::vector<WrittenPart> parts);

/// A checkpoint while it is written, in a temporary folder. All ranks may write files into `path()`; then one process
/// calls `commit`. Without that, the destructor removes the folder, and older checkpoints are untouched.
class NewCheckpoint {
 public:
  /// Makes the temporary folder. @pre `folder` outlives this object and has no other unfinished checkpoint
  /// @throws Error{io}
  NewCheckpoint(CheckpointFolder& folder, std::int64_t step);
  NewCheckpoint(const NewCheckpoint&) = delete;
  NewCheckpoint& operator=(const NewCheckpoint&) = delete;
  ~NewCheckpoint();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes state.json, waits until everything is on disk, and gives the folder its name, which may have belonged to an
  /// older checkpoint of the same step; then lets `last` name it.
  /// @param state  with a record for every file; gets the step
  /// @return the checkpoint's path
  /// @throws Error{io}; Error{corrupt} if a file of the record is missing or has another size
  std::filesystem::path commit(StateFile state);
  /// The checkpoint's path once the folder has its name, even if commit() has thrown because of `last`; empty before.
  [[nodiscard]] const std::filesystem::path& committed() const { return committed_; }

 private:
  CheckpointFolder& folder_;
  std::int64_t step_;
  std::filesystem::path path_;
  std::filesystem::path committed_;
};

}  // namespace lockstep::state
