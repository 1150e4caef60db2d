// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/exchange.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

/// Makes an exchange over TCP connections of its own. In step k of an exchange a rank sends the bytes of 2ᵏ ranks to
/// the rank 2ᵏ after it, so that a rank has two connections for each bit of the number of ranks. Collective.
/// @source J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
///         1997, section 4
/// @throws Error{transport}, on every rank, if not all can be connected; Error{timeout}
std::unique_ptr<Exchange> make_socket_exchange(const RankSet& set);

}  // namespace lockstep
