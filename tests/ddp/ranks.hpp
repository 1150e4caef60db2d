// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep::ddp {

/// Runs the body on every rank with its group, which is closed afterwards. The ranks are 1 to 5 threads, one number
/// after the other, or the processes of the test.
void on_every_rank(const std::function<void(ProcessGroup&)>& body, const GroupOptions& options = {});
/// Whether the ranks of `on_every_rank` are threads.
bool ranks_are_threads();

/// Returns the message of the error that the call throws, or that it throws nothing.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace lockstep::ddp
