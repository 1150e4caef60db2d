// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/observe/events.hpp"

namespace lockstep::trainer {

/// Hears what happens in a run. Called on every rank; figures that concern all ranks are the same on each.
class Listener {
 public:
  virtual ~Listener() = default;
  /// After every `log_every`th step.
  virtual void step(const observe::StepEvent& event) = 0;
  /// After an epoch has been evaluated.
  virtual void epoch(const observe::EpochEvent& event) = 0;
};

}  // namespace lockstep::trainer
