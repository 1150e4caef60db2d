// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/collectives/choice/selection.hpp"

/// What tuning makes of measured times; nothing here measures.
namespace lockstep::comm_bench {

/// The settings of an algorithm that are worth trying at this size: the usual one, then segments and blocks in flight
/// around it. Of those that would run alike only the first.
/// @param way    gives algorithm and radix
/// @param bytes  as in collectives::predicted_seconds
std::vector<collectives::Choice> settings_of(CollectiveKind kind, const collectives::Choice& way,
                                             const collectives::ShapeSummary& shape, Bytes bytes);

/// A choice and how long it took.
struct Timed {
  collectives::Choice choice;
  double seconds = 0;
};

/// The fastest first, at most `most` of them, and none that took longer than `factor` times the fastest.
std::vector<Timed> fastest(std::vector<Timed> timed, std::size_t most, double factor);

/// The fastest choice; but `preferred` if it is among them and at most 2 % slower, which is within what medians vary.
/// @pre there is one
collectives::Choice best_of(std::vector<Timed> timed, const collectives::Choice& preferred);

/// What was found best at one size.
struct Finding {
  Bytes bytes;
  collectives::Choice choice;
};

/// Entries for all sizes: each finding holds up to the geometric mean of its size and the next, the first from 0 on,
/// the last without end. Neighbors of one choice are one entry.
/// @param findings  sizes ascending
std::vector<collectives::TableEntry> entries_of(CollectiveKind kind, const collectives::ShapeSummary& shape,
                                                std::span<const Finding> findings);

}  // namespace lockstep::comm_bench
