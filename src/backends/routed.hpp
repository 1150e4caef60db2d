// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::backends {

/// Two communicators of the same ranks as one, which takes buffers in any memory: `on_device` gets the operations on
/// device memory, and allocates, `on_host` gets the others, barriers among them. Operations on one kind of memory have
/// no order with those on the other, except by waiting. All ranks' buffers of an operation are of one kind, and so are
/// input and output.
std::unique_ptr<Communicator> make_routed(std::unique_ptr<Communicator> on_host,
                                          std::unique_ptr<Communicator> on_device);

}  // namespace lockstep::backends
