// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <optional>
#include <string>

#include "apps/common/terminal.hpp"
#include "apps/train/reporter.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::train {

/// Rank 0's output to the user. The other ranks have no reporter and print nothing.
class Voice {
 public:
  explicit Voice(const World& world) { begin(world); }
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

 private:
  std::optional<Reporter> reporter_;
};

}  // namespace lockstep::train
