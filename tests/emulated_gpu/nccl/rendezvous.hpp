// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace emulated_gpu {

/// An id that leads to this process: a port at which ranks meet, for as long as the process lives.
ncclUniqueId make_id();
/// Whether somebody's make_id() has made it.
bool is_id(const ncclUniqueId& id);
/// What tells the id's communicators from those of others.
std::uint64_t number_of(const ncclUniqueId& id);

/// Every rank brings a text, and gets those of all, by rank, when the last has come: a missing one makes all wait.
/// @param where  what they meet for: the same on all ranks, and another one each time
/// @return nothing if `stop` said so, or if the process of the id has ended
std::optional<std::vector<std::string>> meet(const ncclUniqueId& id, const std::string& where, int rank, int ranks,
                                             const std::string& mine, const std::function<bool()>& stop);

}  // namespace emulated_gpu
