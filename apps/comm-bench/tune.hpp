// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "apps/comm-bench/options.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// Measures the fastest choice for the operation at each size on this cluster, and writes it to the file
/// `options.tune`. Entries for other operations and shapes are kept. Contenders take turns in three rounds: the
/// algorithms with their usual settings; briefly, the best two with all settings; the best four of these. Collective.
/// @param print  called on every rank with the same text
/// @throws Error on every rank, before anything is measured, if the file is not a selection table or cannot be written;
///         Error{mismatch} for a wrong result
void tune(const World& world, const Options& options, const std::function<void(const std::string&)>& print);

}  // namespace lockstep::comm_bench
