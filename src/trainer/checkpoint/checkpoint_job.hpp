// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "state/checkpoint_folder.hpp"
#include "state/safetensors_file.hpp"
#include "state/state_file.hpp"
#include "trainer/checkpoint/checkpoint_layout.hpp"

namespace lockstep::trainer {

/// A checkpoint while rank 0 writes it: first parts that other ranks send, then copies of its own parts.
class CheckpointJob {
 public:
  /// Makes the checkpoint's files. @throws Error{io}
  CheckpointJob(state::CheckpointFolder& folder, std::int64_t step, CheckpointLayout layout);

  /// Writes a part that another rank has sent. @throws Error{io}
  void write_received(StoredPart part);
  /// Copies rank 0's parts into memory that nobody changes, for `commit`.
  /// @param content  of state.json, without the records of files
  /// @param is_best  whether the checkpoint becomes the best one
  void stage(std::vector<StoredPart> parts, const ops::ComputeDevice& device, state::StateFile content, bool is_best);
  /// Writes what was staged, completes the checkpoint, and removes all older ones but `keep`.
  /// @throws what hindered it first, after everything else was tried
  void commit(int keep);
  /// Begins the checkpoint anew in another folder, with all that this one has received and staged. @throws Error{io}
  [[nodiscard]] std::unique_ptr<CheckpointJob> moved_to(state::CheckpointFolder& folder);

  [[nodiscard]] bool is_in(const std::optional<state::CheckpointFolder>& folder) const {
    return folder && folder_ == &*folder;
  }
  /// The checkpoint's path once it is complete, even if `commit` has thrown; empty before.
  [[nodiscard]] std::string path() const { return checkpoint_.committed().string(); }
  /// Size of the files of tensors. @pre commit() has been called
  [[nodiscard]] std::int64_t bytes() const;

 private:
  void write(const StoredPart& part);

  state::CheckpointFolder* folder_;
  state::NewCheckpoint checkpoint_;
  CheckpointLayout layout_;
  std::vector<state::SafetensorsWriter> writers_;           // by file
  std::array<std::vector<state::WrittenPart>, 2> written_;  // by file
  std::vector<StoredPart> received_;                        // their elements are in the files only
  struct Staged {
    Allocation memory;
    std::vector<StoredPart> parts;
    state::StateFile content;  // of state.json
    bool is_best = false;
  } staged_;
  std::int64_t step_;
};

}  // namespace lockstep::trainer
