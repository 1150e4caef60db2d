// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/platform/ranks/key_value_store.hpp"

namespace lockstep {

/// Serves a store, as make_tcp_store does, on any port that is free. @param port  set to it
std::unique_ptr<KeyValueStore> serve_store(std::uint16_t& port);

}  // namespace lockstep
