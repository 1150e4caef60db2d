// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/plan/interval_map.hpp"
#include "collectives/proof/simulator.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {

/// The content of an element: a sum of element (own position + shift) of the leaves. Pieces can therefore be divided
/// and moved freely.
struct Symbol {
  Expression value{-1};  ///< −1: not written
  std::int64_t shift = 0;
  bool filled = false;  ///< holds neutral elements only, which belong to no leaf and fit anywhere; shift is 0 then

  [[nodiscard]] bool written() const { return value.id >= 0; }
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

/// Elements of equal content, at `offset` from the beginning of the range they were read from.
struct Piece {
  std::int64_t offset;
  std::int64_t count;
  Symbol symbol;  ///< shift counts from the beginning of that range
};

/// The actual position of a range: the output of an in-place reduce-scatter or scatter is a part of its input.
struct Extent {
  int memory;
  std::int64_t begin;
  std::int64_t end;
};

/// Returns the number of elements of a memory that a trial gives to each rank.
std::int64_t input_count(const Trial& trial, int ranks, int rank);
std::int64_t output_count(const Trial& trial, int ranks, int rank);
/// Returns the elements that `from` sends to `to` in an all_to_all_v, or the elements of the part of `from` otherwise.
std::int64_t part_count(const Trial& trial, int ranks, int from, int to);
/// Returns the ranges of a rank's output: all of it or, if the parts differ in length, the parts.
std::vector<Range> parts_of_output(const Trial& trial, int ranks, int rank);
/// Returns the number of inputs of `rank`.
int inputs_of(const Trial& trial, int rank);

Extent extent_of(const Trial& trial, int rank, const Range& range);

/// The range that a step's `NodeRange` refers to: memory of the rank itself or memory that another rank shares.
struct Seen {
  int owner;
  Range range;
};
Seen seen(std::span<const Plan> plans, int rank, const NodeRange& at, const Trial& trial);

/// One rank's memories.
class SymbolicMemory {
 public:
  /// Starts with the contributions in their places.
  SymbolicMemory(const Trial& trial, int ranks, int rank, Expressions& expressions);

  [[nodiscard]] std::vector<Piece> read(const Range& range);
  /// Overwrites `range` with `pieces`, which must cover it.
  void write(const Range& range, const std::vector<Piece>& pieces);

 private:
  IntervalMap<Symbol>& memory(const Extent& at);

  const Trial* trial_;
  int rank_;
  std::vector<IntervalMap<Symbol>> memories_;
};

/// Returns the number of the first leaf of `rank`; for `rank` = number of ranks, the total number of leaves.
int first_leaf(const Trial& trial, int rank);
/// Returns the leaf that represents the neutral elements that a rank fills in, so that it can be traced like the
/// others. It is higher than any true leaf.
inline int filler(int all_leaves, int rank) { return all_leaves + rank; }

// Checks of plans that need no simulation.

/// Finds `malformed` faults: steps that no rank's plan may contain in this trial.
std::optional<Fault> find_malformed(std::span<const Plan> plans, int rank, const Trial& trial);

/// Finds `unmatched` and `unequal_counts` faults.
std::optional<Fault> find_mismatch(std::span<const Plan> plans);

/// Finds faults of an all_to_all_v: `missing` if a rank gets no message from another one, not even an empty one, so
/// that neither would detect that their counts differ; `redundant` if a pair has a second message.
std::optional<Fault> find_untold(std::span<const Plan> plans, const Trial& trial);

/// Finds `race` faults: two steps access the same elements, at least one of them writes, and neither waits for the
/// other. It compares all overlapping pairs, and knows memories that are identical in place, which `dependencies` does
/// not.
std::optional<Fault> find_race(const Plan& plan, std::span<const Dependencies> waits_for, int rank, const Trial& trial);

/// Finds faults of barriers: `missing` if a rank ends without having heard, directly or indirectly, that another has
/// begun; `redundant` if a signal brings no new information.
std::optional<Fault> find_uninformed(std::span<const Plan> plans);

/// Finds `race` faults between ranks: two ranks access the same elements of one of them, at least one of them writes,
/// and there is no happens-before order.
///
/// Happens-before consists of the dependencies within a plan, of everything the sender did before a message that was
/// received, and of everything a rank did before a Publish that was awaited. Owners write their input and output before
/// their first step and after their last, so a peer may access them neither before the one nor after the other. There
/// is nothing to check if no rank accesses another's memory.
/// @param timeline  of these plans, without blocked steps
std::optional<Fault> find_race_between_ranks(std::span<const Plan> plans, const Timeline& timeline, const Trial& trial);

/// Finds `unwritten`, `misplaced`, `missing`, `doubled` and `unequal` faults: differences between the outputs of all
/// ranks and the specified result.
std::optional<Fault> find_wrong_result(const std::vector<std::vector<Piece>>& outputs, const Trial& trial,
                                       const Expressions& expressions);

}  // namespace lockstep::collectives
