// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep::ddp {

/// Runs the body on every rank, each with its group, which it closes afterwards: on threads for 1 to 5 ranks one after
/// the other, or on the processes of the test.
void on_every_rank(const std::function<void(ProcessGroup&)>& body, const GroupOptions& options = {});

/// What the call throws, or that it throws nothing.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace lockstep::ddp
