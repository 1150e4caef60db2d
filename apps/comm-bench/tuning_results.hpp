// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "collectives/choice/selection.hpp"

/// Evaluates the times that tuning has measured; nothing here measures.
namespace lockstep::comm_bench {

/// Returns the settings of an algorithm to try at this size: the usual one, then segments and blocks in flight around
/// it. Of several settings that would run alike, only the first is returned.
/// @param way    provides algorithm and radix
/// @param bytes  as in collectives::predicted_seconds
std::vector<collectives::Choice> settings_of(CollectiveKind kind, const collectives::Choice& way,
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
