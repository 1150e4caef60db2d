// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/platform/ranks/key_value_store.hpp"

namespace lockstep {

/// Serves a store, as make_tcp_store does, on any port that is free.
/// @param hosts  the addresses to listen at; none: all of this host
/// @param port   set to the port
std::unique_ptr<KeyValueStore> serve_store(const std::vector<std::string>& hosts, std::uint16_t& port);

}  // namespace lockstep
