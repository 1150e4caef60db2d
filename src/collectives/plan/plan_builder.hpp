// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  /// to = received ⊕ to
  void receive_reduce(int peer, const Range& to) { receive_reduce(peer, to, to); }
  /// to = received ⊕ own
  void receive_reduce(int peer, const Range& to, const Range& own) { append(to, ReceiveReduce{peer, to, own}); }
  void copy(const Range& to, const Range& from) { append(to, Copy{to, from}); }
  void reduce(const Range& to, const Range& from) { append(to, Reduce{to, from}); }
  void fill(const Range& to) { append(to, Fill{to}); }
  void scratch(Count count) { plan_.scratch = count; }

  void publish(int phase) { plan_.steps.emplace_back(Publish{phase}); }
  void await(std::vector<int> peers, int phase) {
    if (!peers.empty()) plan_.steps.emplace_back(Await{std::move(peers), phase});
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

}  // namespace lockstep::collectives
