// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "lockstep/backends/method.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// The sizes to measure, the largest last: elements of the buffer, or of each of its parts.
std::vector<Count> counts_of(const Options& options, int ranks);

/// The contenders that the options name; where they name none, all that are of use on this cluster.
std::vector<std::string> names_on(const World& world, const Options& options);

/// What one of lockstep's contenders goes by: for "auto" what is fastest, else its algorithm, with the options'
/// segment, blocks in flight and radix; for "mpi-native" the MPI library.
/// @pre it is of contender_names(op), and not "mpi"
backends::Method method_of(std::string_view contender, const Options& options);

/// What is chosen for each size, why, and the predicted time: for "auto" if it is among the algorithms, else for each
/// of lockstep's own. Collective. @throws as ProcessGroup; UsageError if there are only the MPI library's
std::string explanation(const World& world, const Options& options);

}  // namespace lockstep::comm_bench
