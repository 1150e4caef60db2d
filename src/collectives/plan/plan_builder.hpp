// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Appends steps to a plan and omits steps that would move nothing. Both ends of a message know its count, so both omit
/// it.
class PlanBuilder {
 public:
  void send(int peer, const Range& from) { append(from, Send{peer, from}); }
  void receive(int peer, const Range& to) { append(to, Receive{peer, to}); }
  /// to = received ⊕ to, or to ⊕ received
  void receive_reduce(int peer, const Range& to, FirstOperand first = FirstOperand::other) {
    receive_reduce(peer, to, to, first);
  }
  /// to = received ⊕ own, or own ⊕ received
  void receive_reduce(int peer, const Range& to, const Range& own, FirstOperand first = FirstOperand::other) {
    append(to, ReceiveReduce{peer, to, own, first});
  }
  void copy(const Range& to, const Range& from) { append(to, Copy{to, from}); }
  /// to = to ⊕ from, or from ⊕ to
  void reduce(const Range& to, const Range& from, FirstOperand first = FirstOperand::own) {
    append(to, Reduce{to, from, first});
  }
  void fill(const Range& to) { append(to, Fill{to}); }
  void scratch(Count count) { plan_.scratch = count; }

  void publish(int phase) { plan_.steps.emplace_back(Publish{phase}); }
  void await(std::vector<int> peers, int phase, bool hears_of_all = false) {
    if (!peers.empty()) plan_.steps.emplace_back(Await{std::move(peers), phase, hears_of_all});
  }
  /// Each of `to` = the sum of `from`.
  void combine(std::vector<NodeRange> to, std::vector<NodeRange> from,
               AdditionOrder order = AdditionOrder::left_to_right, std::vector<int> widths = {}) {
    const bool moves = to.front().range.count > 0 && (from.size() > 1 || to != from);
    if (moves) plan_.steps.emplace_back(Combine{std::move(to), std::move(from), order, std::move(widths)});
  }
  void staging(Count count) { plan_.staging = count; }

  /// Appends a step of another plan.
  void append(const Step& step) { plan_.steps.push_back(step); }

  [[nodiscard]] Plan take() { return std::move(plan_); }

 private:
  void append(const Range& moved, const Step& step) {
    if (moved.count > 0) plan_.steps.push_back(step);
  }

  Plan plan_;
};

/// The layout of a buffer in a plan that has one part for each rank: a part begins every `stride` elements, and has at
/// most that many elements.
class Parts {
 public:
  /// @param stride  at least the count of the longest part
  Parts(Count stride, std::vector<std::int64_t> counts) : stride_(stride.value), counts_(std::move(counts)) {}
  static Parts equal(int ranks, Count count) {
    return {count, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), count.value)};
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(counts_.size()); }
  [[nodiscard]] Count stride() const { return {stride_}; }
  [[nodiscard]] std::int64_t count(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  /// Returns the part of `rank`, in a memory that holds all parts.
  [[nodiscard]] Range of(int rank, Memory memory, int leaf = 0) const {
    return {memory, rank * stride_, count(rank), leaf};
  }
  /// Returns the part of `rank`, in a memory that holds no other part.
  [[nodiscard]] Range alone(int rank, Memory memory) const { return {memory, 0, count(rank)}; }

 private:
  std::int64_t stride_;
  std::vector<std::int64_t> counts_;
};

/// The contribution of a rank to a reduction: any number of leaves, possibly none.
struct Contribution {
  int leaves = 1;
  bool in_place = false;  ///< leaf 0 is where the result goes; unused without leaves
};

/// Prepends to `exchange` the steps that gather the rank's leaves at `destination`: nothing or a copy for one leaf,
/// sums in the order of the leaves for several, the neutral element for none.
/// @param destination  as many elements as each leaf has; the part of the output that `exchange` starts from
inline Plan contribute(Plan exchange, const Contribution& own, const Range& destination) {
  PlanBuilder prologue;
  const auto input = [&](int leaf) { return Range{Memory::input, 0, destination.count, leaf}; };
  if (own.leaves == 0) prologue.fill(destination);
  if (own.leaves > 0 && !own.in_place) prologue.copy(destination, input(0));
  for (int leaf = 1; leaf < own.leaves; ++leaf) prologue.reduce(destination, input(leaf));
  const Plan first = prologue.take();
  exchange.steps.insert(exchange.steps.begin(), first.steps.begin(), first.steps.end());
  return exchange;
}

}  // namespace lockstep::collectives
