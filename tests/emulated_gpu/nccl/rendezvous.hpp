// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace emulated_gpu {

/// Makes an id that leads to this process: a port at which ranks meet while the process lives.
ncclUniqueId make_id();
/// Returns whether a make_id() has made it.
bool is_id(const ncclUniqueId& id);
/// Returns the number that distinguishes the id's communicators from those of others.
std::uint64_t number_of(const ncclUniqueId& id);

/// Each rank contributes a text and gets those of all, by rank, when the last rank has come; a missing rank makes all
/// wait.
/// @param where  the purpose of the meeting: the same on all ranks, and different each time
/// @return nothing if `stop` returned true, or if the process of the id has ended
std::optional<std::vector<std::string>> meet(const ncclUniqueId& id, const std::string& where, int rank, int ranks,
                                             const std::string& mine, const std::function<bool()>& stop);

}  // namespace emulated_gpu
