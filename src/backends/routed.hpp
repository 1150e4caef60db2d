// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::backends {

/// Combines two communicators of the same ranks into one that takes buffers in any memory: `on_device` runs the
/// operations on device memory, and allocates; `on_host` runs all others, including barriers. Operations on different
/// kinds of memory are ordered only by waiting. All ranks' buffers of an operation are in the same kind of memory, and
/// so are input and output.
std::unique_ptr<Communicator> make_routed(std::unique_ptr<Communicator> on_host,
                                          std::unique_ptr<Communicator> on_device);

}  // namespace lockstep::backends
