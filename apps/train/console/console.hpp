// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/trainer/options.hpp"
#include "observe/metrics_file.hpp"
#include "observe/progress_display.hpp"
#include "observe/tensor_board.hpp"

namespace lockstep::train {

/// A display that several threads may use. Its own thread updates it while a step or loading data takes long.
class Screen {
 public:
  /// @param out  outlives this
  Screen(std::ostream& out, const observe::ProgressOptions& options);
  /// Erases the progress line if it is still there.
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  template <typename Use>
  void use(const Use& use) {
    const std::lock_guard lock(mutex_);
    use(display_);
  }

 private:
  std::mutex mutex_;
  observe::ProgressDisplay display_;
  bool ending_ = false;
  std::condition_variable ends_;
  std::thread ticker_;
};

/// The files that get the events of a run, as far as there are any.
struct Reports {
  std::optional<observe::MetricsFile> metrics;
  std::optional<observe::TensorBoard> tensorboard;
};

/// What the user gets to see of a run. Rank 0 shows it: all its standard output passes through here, so that nothing
/// else gets into the progress line. The other ranks print nothing, unless the launcher keeps a log of each rank
/// (LOCKSTEP_OWN_LOG); then they write the step every ten seconds. If a file of the reports cannot be written, for
/// example because the disk is full, training continues, and later events are not written there.
class Console final : public trainer::Listener {
 public:
  /// @param program  its name, for messages on standard error
  Console(const World& world, std::string program);

  /// Begins to show the run if this rank has become rank 0.
  void begin(const World& world);
  [[nodiscard]] bool is_shown() const { return screen_.has_value(); }
  /// Returns what receives the events of a trainer on this rank; null if nothing does.
  [[nodiscard]] trainer::Listener* listener() { return screen_ || keeps_log_ ? this : nullptr; }

  /// Shows the current phase, such as "loading mnist".
  void phase(const std::string& what) {
    show([&](observe::ProgressDisplay& display) { display.phase(what); });
  }
  /// Prints text of whole lines.
  void print(const std::string& text) {
    show([&](observe::ProgressDisplay& display) { display.print(text); });
  }
  /// Prints a message of the library to standard error, on any rank, because standard output belongs to the run.
  void notice(std::string_view text) const;
  /// Writes later events to these files, too.
  void record(Reports reports) { reports_ = std::move(reports); }

  /// Notes that the run is about to start.
  void start(const observe::StartEvent& event, const observe::RunLength& run);
  /// Says that the run goes on without ranks that have died.
  void recovered(const observe::RecoveryEvent& event, const observe::RunLength& run);
  /// Writes to the metrics file that the run has gone on before: a rank that has died since has not done it.
  void recovered_earlier(const observe::RecoveryEvent& event) { write_metrics(event); }
  void end(const observe::EndEvent& event) { write(event); }
  void result(const observe::ResultEvent& event) { write(event); }
  void classes(const observe::ClassesEvent& event) { write(event); }
  void picture(const observe::PictureEvent& event) { write(event); }
  void progress(const observe::ProgressEvent& event) override;
  void step(const observe::StepEvent& event) override { write(event); }
  void evaluation(const observe::EvaluationEvent& event) override {
    show([&](observe::ProgressDisplay& display) { display.evaluation(event); });
  }
  void stragglers(const observe::StragglerEvent& event) override {
    show([&](observe::ProgressDisplay& display) { display.stragglers(event); });
    write(event);
  }
  void balance(const observe::BalanceEvent& event) override {
    show([&](observe::ProgressDisplay& display) { display.balance(event); });
    write(event);
  }
  void epoch(const observe::EpochEvent& event) override {
    show([&](observe::ProgressDisplay& display) { display.epoch(event); });
    write(event);
  }
  void checkpoint(const observe::CheckpointEvent& event) override;

  /// Returns whether the metrics file lacks events.
  [[nodiscard]] bool lost_metrics() const { return lost_metrics_; }
  /// The path of the last checkpoint; empty if there is none.
  [[nodiscard]] const std::string& last_checkpoint() const { return last_checkpoint_; }
  /// Why the last checkpoint could not be written; empty if it could.
  [[nodiscard]] const std::string& last_failure() const { return last_failure_; }

 private:
  template <typename Use>
  void show(const Use& use) {
    if (screen_) screen_->use(use);
  }
  template <typename Event>
  void write_metrics(const Event& event) {
    lost_metrics_ = !write_to(reports_.metrics, event, "--metrics") || lost_metrics_;
  }
  template <typename Event>
  void write(const Event& event) {
    write_metrics(event);
    write_to(reports_.tensorboard, event, "--tensorboard");
  }
  /// Writes the event to a file that takes such events. @return whether nothing is lost
  template <typename File, typename Event>
  bool write_to(std::optional<File>& file, const Event& event, const char* option) {
    if constexpr (requires { file->write(event); }) {
      if (!file) return true;
      try {
        file->write(event);
      } catch (const Error& error) {
        file.reset();
        notice(error.message() + "; training goes on, and " + option + " lacks this event and all later ones");
        return false;
      }
    }
    return true;
  }

  std::string program_;
  std::optional<Screen> screen_;
  bool keeps_log_ = false;
  std::optional<Clock::time_point> logged_;  // when the step was written into the rank's log
  Reports reports_;
  bool lost_metrics_ = false;
  std::string last_checkpoint_;
  std::string last_failure_;
  bool tried_elsewhere_ = false;  // the last checkpoint could not be written into the folder of the run
};

}  // namespace lockstep::train
