// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/observe/events.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/run_state.hpp"
#include "lockstep/trainer/store.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/safetensors_file.hpp"
#include "state/state_file.hpp"
#include "trainer/checkpoint_layout.hpp"

namespace lockstep::trainer {

/// Writes the checkpoints of a run. Rank 0 copies what it owns and writes it on a thread of its own while training goes
/// on. With a sharded optimizer the other ranks send it their parts, which it writes piece by piece, so that no rank
/// holds all of them.
class Checkpoints {
 public:
  /// Opens the folder on rank 0. Collective. @param listener  may be null
  /// @throws Error{invalid_argument}; Error{io} on every rank
  Checkpoints(ProcessGroup& group, CheckpointOptions options, Listener* listener);
  /// Waits for the checkpoint that is being written.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  [[nodiscard]] const CheckpointOptions& options() const { return options_; }
  /// Returns the step of the last call of save(); −1: none.
  [[nodiscard]] std::int64_t last_step() const { return last_step_; }

  /// Saves a checkpoint. @pre all numbers are finite. Trouble with files is an event, the other folder is tried, and
  /// the run goes on. Collective.
  /// @param file     its sections; this call adds the files
  /// @param is_best  whether it becomes the best one
  void save(Store& store, const RunState& run, state::StateFile file, bool is_best);
  /// Reports the checkpoint that is being written if it is complete.
  void poll();
  /// Waits for the checkpoint that is being written, and reports it.
  void finish();
  /// Returns whether there is a checkpoint with the state after this step, written here or continued from. Collective.
  /// @pre finish() was called
  [[nodiscard]] bool has(std::int64_t step) const;
  /// Declares that the run goes on from this checkpoint, on rank 0. @throws Error{io}
  void continue_from(const std::filesystem::path& checkpoint, std::int64_t step);

 private:
  struct Job;
  void send(const Store& store, const CheckpointLayout& layout);
  void receive(const observe::CheckpointEvent& event, std::unique_ptr<Job>& job, const CheckpointLayout& layout);
  std::unique_ptr<Job> new_job(const observe::CheckpointEvent& event, const CheckpointLayout& layout);
  std::unique_ptr<Job> moved(const Job& failed);
  std::vector<observe::CheckpointEvent> write(const observe::CheckpointEvent& begun, double stall,
                                              std::unique_ptr<Job> job);
  static void write(Job& job, int keep);
  [[nodiscard]] bool can_move(const Job& job) const;
  static observe::CheckpointEvent failed(observe::CheckpointEvent event, const std::string& why,
                                         bool tries_elsewhere = false);
  void report(const observe::CheckpointEvent& event);

  ProcessGroup* group_;
  CheckpointOptions options_;
  Listener* listener_;
  std::optional<state::CheckpointFolder> folder_;    // on rank 0
  std::optional<state::CheckpointFolder> fallback_;  // on rank 0, for what cannot be written there
  std::future<std::vector<observe::CheckpointEvent>> writing_;
  std::int64_t last_step_ = -1;
  observe::CheckpointEvent newest_{.step = -1};  // on rank 0: step and path of the newest checkpoint of this state
};

/// Finds the checkpoint that a user means, on rank 0, and reads its `state.json`. Collective.
/// @param wish    "last", "best", "auto" or a path
/// @param folder  the folder of the run
/// @param other   another folder of the run, into which "auto" looks, too; empty: none
/// @param notes   receives, on rank 0, why newer checkpoints were refused
/// @return nothing, on every rank, if there is none and `wish` is "auto"
/// @throws Error{io} or Error{corrupt} on every rank
struct OpenedCheckpoint {
  std::filesystem::path path;  ///< on rank 0
  state::StateFile file;
};
std::optional<OpenedCheckpoint> open_checkpoint(ProcessGroup& group, const std::string& wish,
                                                const std::filesystem::path& folder, const std::filesystem::path& other,
                                                std::vector<std::string>& notes);

/// Overwrites the store with the tensors of a checkpoint, which rank 0 reads. Collective.
/// @throws Error{io} or Error{corrupt} on every rank; Error{mismatch} on every rank if the tensors are not the store's.
///         Then nothing has changed, unless a file became unreadable meanwhile
void load_tensors(ProcessGroup& group, const std::filesystem::path& path, Store& store);

}  // namespace lockstep::trainer
