// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "collectives/choice/selection.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::comm_bench {

/// Measures the fastest choice for the operation at each size on this cluster, and writes it to the file
/// `options.tune`. Entries for other operations and shapes are kept. Contenders take turns in three rounds: the
/// algorithms with their usual settings; briefly, the best two with all settings; the best four of these. Collective.
/// @param print  called on every rank with the same text
/// @throws Error on every rank, before anything is measured, if the file is not a selection table or cannot be written;
///         Error{mismatch} for a wrong result
void tune(const World& world, const Options& options, const std::function<void(const std::string&)>& print);

/// Returns the settings of an algorithm to try at this size: the usual one, then segments and blocks in flight around
/// it. Of several settings that would run alike, only the first is returned.
/// @param choice provides algorithm and radix
/// @param bytes  as in collectives::predicted_seconds
std::vector<collectives::Choice> settings_of(CollectiveKind kind, const collectives::Choice& choice,
                                             const collectives::ShapeSummary& shape, Bytes bytes);

/// A choice and its time.
struct Timed {
  collectives::Choice choice;
  double seconds = 0;
};

/// Returns the fastest choices in ascending order of time: at most `most`, none slower than `factor` times the fastest.
std::vector<Timed> fastest(std::vector<Timed> timed, std::size_t most, double factor);

/// Returns the fastest choice, or `preferred` if it is among them and at most 2 % slower, which is within the variation
/// of medians.
/// @pre there is at least one
collectives::Choice best_of(std::vector<Timed> timed, const collectives::Choice& preferred);

/// The best choice at one size.
struct Finding {
  Bytes bytes;
  collectives::Choice choice;
};

/// Returns entries for all sizes. Each finding covers sizes up to the geometric mean of its own and the next size; the
/// first begins at 0, the last has no end. Neighbors with the same choice become one entry.
/// @param findings  in ascending order of size
std::vector<collectives::TableEntry> entries_of(CollectiveKind kind, const collectives::ShapeSummary& shape,
                                                std::span<const Finding> findings);

}  // namespace lockstep::comm_bench
