// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>

#include "lockstep/comm/progress.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::backends {

/// Closes the control channel of a communicator that this rank has left once all other ranks have left it. Most ranks
/// leave at the same time, so it waits up to `at_most`; after that the progress engine closes the channel later,
/// because ranks may close communicators in any order. @throws Error{transport}
inline void close_when_all_have_left(const std::shared_ptr<ControlChannel>& control, Progress& progress,
                                     std::chrono::milliseconds at_most = std::chrono::milliseconds(100)) {
  if (progress.wait_until([&control] { return control->close(); }, progress.now() + at_most)) return;
  progress.defer([control] {
    try {
      return control->close();
    } catch (const std::exception&) {  // nobody can handle this error
      return true;
    }
  });
}

}  // namespace lockstep::backends
