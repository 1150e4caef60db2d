// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>

#include "lockstep/comm/progress.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::backends {

/// Closes the channel of a communicator that this rank has left as soon as the others have left it, too. Mostly
/// they do so at the same time, for which it waits `at_most`; later the progress does it, since ranks may close
/// communicators in any order. @throws Error{transport}
inline void close_when_all_have_left(const std::shared_ptr<ControlChannel>& control, Progress& progress,
                                     std::chrono::milliseconds at_most = std::chrono::milliseconds(100)) {
  if (progress.wait_until([&control] { return control->close(); }, progress.now() + at_most)) return;
  progress.leave_behind([control] {
    try {
      return control->close();
    } catch (const std::exception&) {  // of use to nobody
      return true;
    }
  });
}

}  // namespace lockstep::backends
