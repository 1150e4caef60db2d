// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/observe/events.hpp"
#include "observe/event_file.hpp"

namespace lockstep::observe {

/// Reports a run to TensorBoard, in a new event file: scalars over the steps of the run, and pictures.
///
///     train/loss, train/learning_rate, train/images_per_second   of the steps that MetricsFile has, too
///     step_seconds/data, …/compute, …/communication              means of these steps on rank 0
///     train/epoch_loss, val/<metric>                             after each epoch
class TensorBoard {
 public:
  /// Creates the file. @throws Error{io} naming the path and the reason
  explicit TensorBoard(const std::filesystem::path& folder) : file_(folder) {}

  /// What earlier starts of the run have reported of later steps is forgotten. @throws Error{io}
  void write(const StartEvent& event) { file_.start_after(event.step); }
  /// @throws Error{io}
  void write(const RecoveryEvent& event) { file_.start_after(event.step); }
  /// @throws Error{io}
  void write(const StepEvent& event);
  /// @throws Error{io}
  void write(const EpochEvent& event);
  /// @throws Error{io}
  void write(const PictureEvent& event);

 private:
  EventFile file_;
};

}  // namespace lockstep::observe
