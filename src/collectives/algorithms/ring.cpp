// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/ring.hpp"

#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

/// Reduce-scatter: the sum that arrives in round s is one rank short of where the one sent in round s had got to.
int sent_in_round(int me, int ranks, int round) { return wrap(me - 1 - round, ranks); }
int received_in_round(int me, int ranks, int round) { return wrap(me - 2 - round, ranks); }

/// Ranks in the order in which they add to the sum that ends on rank `last`.
int adder(int last, int ranks, int position) { return (last + 1 + position) % ranks; }

/// The running sums of a reduce-scatter: two slots of scratch, so that one is received while the other is sent.
class PartialSums {
 public:
  PartialSums(PlanBuilder& plan, int ranks, Count part, Contribution own)
      : plan_(plan), ranks_(ranks), part_(part), own_(own) {}

  /// Where the sum of round `round` comes from; the first one is the rank's contribution alone.
  [[nodiscard]] Range first(int index) {
    if (own_.leaves == 1) return input(index, 0);
    const Range sum = slot(0);
    if (own_.leaves == 0) plan_.fill(sum);
    if (own_.leaves > 0) plan_.copy(sum, input(index, 0));
    add_leaves_from_second(sum, index);
    return sum;
  }

  /// to = received sum of part `index`, plus the rank's leaves.
  void receive(int peer, const Range& to, int index) {
    if (own_.leaves == 0) plan_.receive(peer, to);
    if (own_.leaves > 0) plan_.receive_reduce(peer, to, input(index, 0));
    add_leaves_from_second(to, index);
  }

  /// Where the sum received in round `round` goes.
  [[nodiscard]] Range received(int round) {
    if (round == ranks_ - 2) return {Memory::output, 0, part_.value};
    return slot((round + 1) % 2);
  }

 private:
  [[nodiscard]] Range input(int index, int leaf) const {
    return {Memory::input, index * part_.value, part_.value, leaf};
  }
  void add_leaves_from_second(const Range& to, int index) {
    for (int leaf = 1; leaf < own_.leaves; ++leaf) plan_.reduce(to, input(index, leaf));
  }
  [[nodiscard]] Range slot(int number) {
    scratch_ = std::max(scratch_, (number + 1) * part_.value);
    plan_.scratch({scratch_});
    return {Memory::scratch, number * part_.value, part_.value};
  }

  PlanBuilder& plan_;
  int ranks_;
  Count part_;
  Contribution own_;
  std::int64_t scratch_ = 0;
};

}  // namespace

SlicedAllReduce ring_in_halves(Rank me, int ranks, Count count) {
  const int next = wrap(me.value + 1, ranks);
  const int previous = wrap(me.value - 1, ranks);
  PlanBuilder scatter;
  for (int round = 0; round < ranks - 1; ++round) {
    scatter.send(next, chunk(count, ranks, sent_in_round(me.value, ranks, round)));
    scatter.receive_reduce(previous, chunk(count, ranks, received_in_round(me.value, ranks, round)));
  }
  PlanBuilder gather;
  for (int round = 0; round < ranks - 1; ++round) {
    gather.send(next, chunk(count, ranks, wrap(me.value - round, ranks)));
    gather.receive(previous, chunk(count, ranks, wrap(me.value - round - 1, ranks)));
  }
  return {scatter.take(), chunk(count, ranks, me.value), gather.take()};
}

Plan ring_all_reduce(Rank me, int ranks, Count count) { return all_reduce(ring_in_halves(me, ranks, count)); }

Expression ring_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Count count,
                                 std::int64_t element) {
  const int ranks = static_cast<int>(contributions.size());
  const int last = chunk_of(count, ranks, element);
  Expression sum = Expressions::neutral();
  for (int i = 0; i < ranks; ++i)
    sum = expressions.combine(sum, contributions[static_cast<std::size_t>(adder(last, ranks, i))]);
  return sum;
}

Plan ring_all_gather(Rank me, int ranks, Count count) {
  const auto part = [&](int index) { return Range{Memory::output, wrap(index, ranks) * count.value, count.value}; };
  PlanBuilder plan;
  for (int round = 0; round < ranks - 1; ++round) {
    plan.send(wrap(me.value + 1, ranks), part(me.value - round));
    plan.receive(wrap(me.value - 1, ranks), part(me.value - round - 1));
  }
  return plan.take();
}

Plan ring_reduce_scatter(Rank me, int ranks, Count count, Contribution own) {
  if (ranks == 1) return contribute({}, own, {Memory::output, 0, count.value});
  PlanBuilder plan;
  PartialSums sums(plan, ranks, count, own);
  Range sum = sums.first(sent_in_round(me.value, ranks, 0));
  for (int round = 0; round < ranks - 1; ++round) {
    plan.send(wrap(me.value + 1, ranks), sum);
    sum = sums.received(round);
    sums.receive(wrap(me.value - 1, ranks), sum, received_in_round(me.value, ranks, round));
  }
  return plan.take();
}

Expression ring_reduce_scatter_order(Expressions& expressions, std::span<const std::vector<Expression>> leaves,
                                     int part) {
  const int ranks = static_cast<int>(leaves.size());
  Expression sum = Expressions::neutral();
  for (int i = 0; i < ranks; ++i)
    for (const Expression leaf : leaves[static_cast<std::size_t>(adder(part, ranks, i))])
      sum = expressions.combine(sum, leaf);
  return sum;
}

}  // namespace lockstep::collectives
