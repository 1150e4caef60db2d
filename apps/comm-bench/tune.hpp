// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "apps/comm-bench/options.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// Measures what runs the operation fastest at each size on this cluster, and writes it to the file `options.tune`;
/// what that holds of other operations and shapes stays. Contenders take turns, in three heats: the algorithms as they
/// usually run; the best two in all settings, shortly; the best four of these. Collective.
/// @param print  called on every rank with the same text
/// @throws Error on every rank, before anything is measured, if the file is no selection table or cannot be written;
///         Error{mismatch} for a wrong result
void tune(const World& world, const Options& options, const std::function<void(const std::string&)>& print);

}  // namespace lockstep::comm_bench
