// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "collectives/plan/interval_map.hpp"
#include "collectives/proof/simulator.hpp"

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

}  // namespace lockstep::collectives
