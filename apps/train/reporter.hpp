// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/observe/metrics_file.hpp"
#include "lockstep/observe/progress_display.hpp"
#include "lockstep/trainer/options.hpp"

namespace lockstep::train {

/// All that rank 0 shows of a run: everything on standard output passes through here, so that nothing else gets into
/// the progress line. A thread of its own keeps the lines coming while a step, or loading data, takes long.
class Reporter : public trainer::Listener {
 public:
  /// @param out  must outlive this
  Reporter(std::ostream& out, const observe::ProgressOptions& options);
  /// Erases a progress line that is still there.
  ~Reporter() override;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// What goes on from now on, e.g. "loading mnist".
  void phase(const std::string& what);
  /// Text of whole lines.
  void print(const std::string& text);
  /// From now on events go to the file, too, if there is one.
  void record(std::optional<observe::MetricsFile> metrics) { metrics_ = std::move(metrics); }
  /// The run is about to start.
  void start(const observe::StartEvent& event, const observe::RunLength& run);
  void end(const observe::EndEvent& event) { write(event); }

  void progress(const observe::ProgressEvent& event) override;
  void step(const observe::StepEvent& event) override { write(event); }
  void evaluation(const observe::EvaluationEvent& event) override;
  void epoch(const observe::EpochEvent& event) override;

 private:
  template <typename Event>
  void write(const Event& event) {
    if (metrics_) metrics_->write(event);
  }
  void tick();

  std::mutex mutex_;  // of all but the metrics, which the run's thread alone writes
  observe::ProgressDisplay display_;
  std::optional<observe::MetricsFile> metrics_;
  bool ending_ = false;
  std::condition_variable ends_;
  std::thread ticker_;
};

}  // namespace lockstep::train
