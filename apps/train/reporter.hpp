// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/observe/metrics_file.hpp"
#include "lockstep/observe/progress_display.hpp"
#include "lockstep/trainer/options.hpp"

namespace lockstep::train {

/// Rank 0's ears: hands events on to the display and to the metrics file where there is one.
class Reporter : public trainer::Listener {
 public:
  Reporter(const observe::ProgressDisplay& display, std::optional<observe::MetricsFile> metrics)
      : display_(display), metrics_(std::move(metrics)) {}

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
    if (metrics_) metrics_->write(event);
  }

 private:
  observe::ProgressDisplay display_;
  std::optional<observe::MetricsFile> metrics_;
};

}  // namespace lockstep::train
