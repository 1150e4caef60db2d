// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>

#include "trainer/checkpoint/checkpoint_job.hpp"
#include "trainer/checkpoint/checkpoint_layout.hpp"
#include "trainer/replica/store.hpp"

namespace lockstep::trainer {

/// Writes the checkpoints of a run. Rank 0 copies what it owns and writes it on a thread of its own while training goes
/// on. With a sharded optimizer the other ranks send it their parts, which it writes piece by piece, so that no rank
/// holds all of them.
class Checkpoints {
 public:
  /// Opens the folder on rank 0. Collective.
  /// @throws Error{invalid_argument}; Error{io} on every rank
  Checkpoints(ProcessGroup& group, CheckpointOptions options, Listener& listener);
  /// Waits for the checkpoint that is being written.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  [[nodiscard]] const CheckpointOptions& options() const { return options_; }

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
  using Job = std::unique_ptr<CheckpointJob>;
  void send(const Store& store, const CheckpointLayout& layout);
  void receive(const observe::CheckpointEvent& begun, Job& job, const CheckpointLayout& layout);
  Job new_job(const observe::CheckpointEvent& begun, const CheckpointLayout& layout);
  Job moved_to_fallback(CheckpointJob& failed);
  std::vector<observe::CheckpointEvent> write(const observe::CheckpointEvent& begun, double stall, Job job);
  [[nodiscard]] bool can_move(const CheckpointJob& job) const { return fallback_ && !job.is_in(fallback_); }
  void report(const observe::CheckpointEvent& event);

  ProcessGroup* group_;
  CheckpointOptions options_;
  Listener* listener_;
  std::optional<state::CheckpointFolder> folder_;    // on rank 0
  std::optional<state::CheckpointFolder> fallback_;  // on rank 0, for what cannot be written there
  std::future<std::vector<observe::CheckpointEvent>> writing_;
  observe::CheckpointEvent newest_{.step = -1};  // on rank 0: step and path of the newest checkpoint of this state
};

}  // namespace lockstep::trainer
