// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "lockstep/collectives/choice/selection.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// The sizes to measure, the largest last: elements of the buffer, or of each of its parts.
std::vector<Count> counts_of(const Options& options, int ranks);

/// The contenders that the options name; where they name none, all that are of use on this cluster.
std::vector<std::string> names_on(const World& world, const Options& options);

/// What one of lockstep's own contenders goes by: for "auto" rank 0's table if the options name one, else the algorithm
/// with the options' segment and blocks in flight. Collective.
/// @throws Error on every rank: as backends::agreed_selection_table; Error{invalid_argument} for an algorithm that the
///         cluster cannot run
collectives::Selection selection_for(std::string_view contender, const World& world, const Options& options);

/// What is chosen for each size, why, and the predicted time: for "auto" if it is among the algorithms, else for each
/// of lockstep's own. Collective. @throws as selection_for; UsageError if there are only the MPI library's
std::string explanation(const World& world, const Options& options);

}  // namespace lockstep::comm_bench
