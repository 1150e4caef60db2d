// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// Makes a control channel's way to other ranks of TCP connections of its own. Collective.
/// @param elsewhere  the ranks that share no memory with this one; this rank is one of theirs
/// @throws Error{transport}, on every rank, if not all can be connected; Error{timeout}
std::unique_ptr<ControlChannel::Post> make_tcp_post(const RankSet& set, const std::vector<int>& elsewhere);

}  // namespace lockstep
