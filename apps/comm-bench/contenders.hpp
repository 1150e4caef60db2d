// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "apps/comm-bench/contender.hpp"
#include "apps/comm-bench/options.hpp"
#include "backends/method.hpp"
#include "lockstep/ddp/process_group.hpp"

/// The ways to run an operation that comm-bench measures.
namespace lockstep::comm_bench {

/// Returns the names of the contenders for an operation: lockstep's own, "auto" first, then the MPI library's blocking
/// call and its nonblocking one. On a GPU they are NCCL's, and "auto" is its own choice.
std::span<const std::string_view> contender_names(CollectiveKind op, Device device);

/// Makes a group of all ranks with this method; everything else is taken from `options`. Collective.
/// @throws as ProcessGroup
ProcessGroup make_group(const World& world, const backends::Method& method, const Options& options);

/// Makes a contender from such a group's communicator. Collective.
/// @param prepares  whether it prepares operations and starts them
/// @throws as ProcessGroup
std::unique_ptr<Contender> make_contender(std::string name, const World& world, const backends::Method& method,
                                          const Options& options, bool prepares = false);

/// Makes the contenders that the options name, in that order. Each has its own progress, so that it does not pay for
/// polling the others. Collective. @throws as make_contender
Contenders make_contenders(const World& world, const Options& options);

}  // namespace lockstep::comm_bench
