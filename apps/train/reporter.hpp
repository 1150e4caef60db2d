// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/observe/metrics_file.hpp"
#include "lockstep/observe/progress_display.hpp"
#include "lockstep/trainer/options.hpp"

namespace lockstep::train {

/// Rank 0's listener: hands events to the display and to the metrics file where there is one. A metrics file that
/// cannot be written, as on a full disk, does not end training: `notice` is told once, and later events go to the
/// display only.
class Reporter : public trainer::Listener {
 public:
  Reporter(const observe::ProgressDisplay& display, std::optional<observe::MetricsFile> metrics,
           std::function<void(std::string_view)> notice)
      : display_(display), metrics_(std::move(metrics)), notice_(std::move(notice)) {}

  void step(const observe::StepEvent& event) override {
    display_.step(event);
    write(event);
  }
  void epoch(const observe::EpochEvent& event) override {
    display_.epoch(event);
    write(event);
  }
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
  /// Whether the metrics file lacks events.
  [[nodiscard]] bool lost_metrics() const { return lost_metrics_; }

 private:
  observe::ProgressDisplay display_;
  std::optional<observe::MetricsFile> metrics_;
  std::function<void(std::string_view)> notice_;
  bool lost_metrics_ = false;
};

}  // namespace lockstep::train
