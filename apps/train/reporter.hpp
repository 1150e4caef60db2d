// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/trainer/options.hpp"
#include "observe/metrics_file.hpp"
#include "observe/progress_display.hpp"

namespace lockstep::train {

/// Shows the run on rank 0. All standard output passes through it, so that nothing else gets into the progress line.
/// Its own thread updates the display while a step or loading data takes long. If the metrics file cannot be written,
/// for example because the disk is full, training continues and later events are only shown.
class Reporter : public trainer::Listener {
 public:
  /// @param out  outlives this
  Reporter(std::ostream& out, const observe::ProgressOptions& options);
  /// Erases the progress line if it is still there.
  ~Reporter() override;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Shows the current phase, such as "loading mnist".
  void phase(const std::string& what);
  /// Prints text of whole lines.
  void print(const std::string& text);
  /// Writes later events to the file, too, if there is one.
  /// @param notice  called once if the file cannot be written
  void record(std::optional<observe::MetricsFile> metrics, std::function<void(std::string_view)> notice) {
    metrics_ = std::move(metrics);
    notice_ = std::move(notice);
  }
  /// Returns whether the metrics file lacks events.
  [[nodiscard]] bool lost_metrics() const { return lost_metrics_; }
  /// Notes that the run is about to start.
  void start(const observe::StartEvent& event, const observe::RunLength& run);
  /// Says that the run goes on without ranks that have died.
  void recovered(const observe::RecoveryEvent& event, const observe::RunLength& run);
  void end(const observe::EndEvent& event) { write(event); }

  void progress(const observe::ProgressEvent& event) override;
  void step(const observe::StepEvent& event) override { write(event); }
  void evaluation(const observe::EvaluationEvent& event) override;
  void stragglers(const observe::StragglerEvent& event) override;
  void balance(const observe::BalanceEvent& event) override;
  void epoch(const observe::EpochEvent& event) override;
  void checkpoint(const observe::CheckpointEvent& event) override;
  /// The path of the last checkpoint; empty if there is none.
  [[nodiscard]] const std::string& last_checkpoint() const { return last_checkpoint_; }
  /// Why the last checkpoint could not be written; empty if it could.
  [[nodiscard]] const std::string& last_failure() const { return last_failure_; }

 private:
  template <typename Event>
  void write(const Event& event) {
    if (!metrics_) return;
    try {
      metrics_->write(event);
    } catch (const Error& error) {
      metrics_.reset();
      lost_metrics_ = true;
      notice_(error.message() + "; training goes on, and --metrics lacks this event and all later ones");
    }
  }
  void tick();

  std::mutex mutex_;  // guards everything but the metrics, which only the run's thread writes
  observe::ProgressDisplay display_;
  std::optional<observe::MetricsFile> metrics_;
  std::function<void(std::string_view)> notice_;
  bool lost_metrics_ = false;
  std::string last_checkpoint_;
  std::string last_failure_;
  bool tried_elsewhere_ = false;  // the last checkpoint could not be written into the folder of the run
  bool ending_ = false;
  std::condition_variable ends_;
  std::thread ticker_;
};

}  // namespace lockstep::train
