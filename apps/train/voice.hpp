// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "apps/common/terminal.hpp"
#include "apps/train/reporter.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "lockstep/trainer/options.hpp"

namespace lockstep::train {

/// Writes the step into a rank's log every ten seconds.
class StepLog final : public trainer::Listener {
 public:
  void progress(const observe::ProgressEvent& event) override {
    const Clock::time_point now = Clock::now();
    if (written_ && now - *written_ < std::chrono::seconds(10)) return;
    written_ = now;
    std::cout << "epoch " << event.epoch << "  step " << event.step << std::endl;
  }
  void step(const observe::StepEvent& /*event*/) override {}
  void epoch(const observe::EpochEvent& /*event*/) override {}

 private:
  std::optional<Clock::time_point> written_;
};

/// Rank 0's output to the user. The other ranks have no reporter, and print nothing unless the launcher keeps a log of
/// each rank (LOCKSTEP_OWN_LOG).
class Voice {
 public:
  explicit Voice(const World& world) {
    begin(world);
    if (!reporter_ && std::getenv("LOCKSTEP_OWN_LOG") != nullptr) step_log_.emplace();
  }
  /// Begins to speak if this rank has become rank 0.
  void begin(const World& world) {
    if (world.rank() != Rank{0} || reporter_) return;
    reporter_.emplace(std::cout, observe::ProgressOptions{.terminal = shows_on_terminal(),
                                                          .columns = terminal_columns().value_or(80)});
  }
  void phase(const std::string& what) {
    if (reporter_) reporter_->phase(what);
  }
  void print(const std::string& text) {
    if (reporter_) reporter_->print(text);
  }
  /// Returns null on the other ranks.
  [[nodiscard]] Reporter* reporter() { return reporter_ ? &*reporter_ : nullptr; }
  /// What a trainer on this rank tells of its events; may be null.
  [[nodiscard]] trainer::Listener* listener() {
    if (reporter_) return &*reporter_;
    return step_log_ ? &*step_log_ : nullptr;
  }

 private:
  std::optional<Reporter> reporter_;
  std::optional<StepLog> step_log_;
};

}  // namespace lockstep::train
