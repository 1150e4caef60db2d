// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "collectives/plan/interval_map.hpp"
#include "collectives/proof/simulator.hpp"

namespace lockstep::collectives {

/// What an element holds: a sum, of element (own position + shift) of the leaves. So pieces may be cut and moved at
/// will.
struct Symbol {
  Expression value{-1};  ///< −1: not written
  std::int64_t shift = 0;
  bool filled = false;  ///< with neutral elements only: they are nobody's and fit anywhere; shift is 0 then

  [[nodiscard]] bool written() const { return value.id >= 0; }
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

/// Elements of equal content, at `offset` from the beginning of the range they were read from.
struct Piece {
  std::int64_t offset;
  std::int64_t count;
  Symbol symbol;  ///< shift counts from the beginning of that range
};

/// Where a range really lies: an in-place reduce-scatter's or scatter's output is a part of its input.
struct Extent {
  int memory;
  std::int64_t begin;
  std::int64_t end;
};

/// Number of elements of the memories that a trial gives to each rank.
std::int64_t input_count(const Trial& trial, int ranks, int rank);
std::int64_t output_count(const Trial& trial, int ranks, int rank);
/// Elements that `from` sends to `to` where parts differ; of the part of `from` where there is one for each rank.
std::int64_t part_count(const Trial& trial, int ranks, int from, int to);
/// What a rank's output consists of: all of it or, where parts differ in length, what lies in the parts.
std::vector<Range> parts_of_output(const Trial& trial, int ranks, int rank);
/// How many inputs `rank` has.
int inputs_of(const Trial& trial, int rank);

Extent extent_of(const Trial& trial, int rank, const Range& range);

/// What `range` means to the step of a rank: of its own memory, or of what another rank shows.
struct Seen {
  int owner;
  Range range;
};
Seen seen(std::span<const Plan> plans, int rank, const NodeRange& at, const Trial& trial);

/// One rank's memories.
class SymbolicMemory {
 public:
  /// With the contributions in their places.
  SymbolicMemory(const Trial& trial, int ranks, int rank, Expressions& expressions);

  [[nodiscard]] std::vector<Piece> read(const Range& range);
  /// Overwrites `range` by `pieces`, which must cover it.
  void write(const Range& range, const std::vector<Piece>& pieces);

 private:
  IntervalMap<Symbol>& memory(const Extent& at);

  const Trial* trial_;
  int rank_;
  std::vector<IntervalMap<Symbol>> memories_;
};

/// The number of the first leaf that `rank` brings; for the number of ranks how many leaves there are.
int first_leaf(const Trial& trial, int rank);
/// The leaf that stands for what a rank fills in, so that it is followed like the others. Higher than any true leaf.
inline int filler(int all_leaves, int rank) { return all_leaves + rank; }

/// The number of the first leaf that stands for what a function makes of a sum. Higher than any filler.
inline int first_applied(const Trial& trial, int ranks) { return filler(first_leaf(trial, ranks), ranks); }
/// The leaf for this sum: nothing is known of it but that it is the same for the same sum.
inline int applied(int first, Expression sum) { return first + sum.id; }
/// The opposite: nothing if `value` is something else.
std::optional<Expression> sum_applied_to(const Expressions& expressions, int first, Expression value);

}  // namespace lockstep::collectives
