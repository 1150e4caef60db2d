// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "backends/method.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// Returns the sizes to measure, the largest last, as elements of the buffer or of each of its parts.
std::vector<Count> counts_of(const Options& options, int ranks);

/// Returns the contenders that the options name, or all that are useful on this cluster if they name none.
std::vector<std::string> names_on(const World& world, const Options& options);

/// Returns the method of one of lockstep's contenders. "auto" selects the fastest algorithm, "mpi-native" is the MPI
/// library, and any other name is an algorithm with the segment, blocks in flight and radix of the options.
/// @pre it is from contender_names(op), but not "mpi"
backends::Method method_of(std::string_view contender, const Options& options);

/// Returns the choice for each size, the reason, and the predicted time: for "auto" if it is among the algorithms,
/// otherwise for each of lockstep's own. Collective. @throws as ProcessGroup; UsageError if there are only the MPI
/// library's
std::string explanation(const World& world, const Options& options);

}  // namespace lockstep::comm_bench
