// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/tasks.hpp"

#include "platform/watchdog/watchdog.hpp"

namespace lockstep {

std::shared_ptr<FlightRecorder> Tasks::recorder() const { return watchdog_ == nullptr ? nullptr : watchdog_->record(); }

void Tasks::note_poll() const {
  if (const auto record = recorder()) record->note_poll();
}

void Tasks::note_change() const {
  if (const auto record = recorder()) record->set_task(is_idle() ? "" : what());
}

}  // namespace lockstep
