// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/operations.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

/// The index of the part that a rank sends or receives in a round of the reduce-scatter. The part received in round s
/// is sent in round s + 1.
int sent_in_round(int me, int ranks, int round) { return wrap(me - 1 - round, ranks); }
int received_in_round(int me, int ranks, int round) { return wrap(me - 2 - round, ranks); }

/// Returns the rank that is at `position` among those that add to the sum that ends on rank `last`.
int adder(int last, int ranks, int position) { return (last + 1 + position) % ranks; }

/// The partial sums of a reduce-scatter, in two slots of scratch, so that one can be received while the other is sent.
class PartialSums {
 public:
  PartialSums(PlanBuilder& plan, const Parts& parts, Contribution own) : plan_(plan), parts_(parts), own_(own) {}

  /// Returns the sum of part `index` that is sent first, which is the rank's contribution alone.
  [[nodiscard]] Range first(int index) {
    if (own_.leaves == 1) return input(index, 0);
    const Range sum = slot(0, index);
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

  /// Returns the range for the sum of part `index`, which is received in round `round`.
  [[nodiscard]] Range received(int round, int index) {
    if (round == parts_.ranks() - 2) return parts_.alone(index, Memory::output);
    return slot((round + 1) % 2, index);
  }

 private:
  [[nodiscard]] Range input(int index, int leaf) const { return parts_.of(index, Memory::input, leaf); }
  void add_leaves_from_second(const Range& to, int index) {
    for (int leaf = 1; leaf < own_.leaves; ++leaf) plan_.reduce(to, input(index, leaf));
  }
  [[nodiscard]] Range slot(int number, int index) {
    const std::int64_t stride = parts_.stride().value;
    scratch_ = std::max(scratch_, (number + 1) * stride);
    plan_.scratch({scratch_});
    return {Memory::scratch, number * stride, parts_.count(index)};
  }

  PlanBuilder& plan_;
  const Parts& parts_;
  Contribution own_;
  std::int64_t scratch_ = 0;
};

}  // namespace

/// Ring all-reduce in the output: reduce-scatter around the ring, then all-gather. It is best for large buffers: no
/// rank sends more than 2(p−1)/p of the buffer, and only to its neighbor.
/// @cost   2(p−1)α + 2(p−1)/p·nβ + (p−1)/p·nγ   (n in bytes)
/// @source Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009
Plan ring_all_reduce(Rank me, int ranks, Count count, int /*radix*/) {
  const int next = wrap(me.value + 1, ranks);
  const int previous = wrap(me.value - 1, ranks);
  PlanBuilder plan;
  for (int round = 0; round < ranks - 1; ++round) {
    plan.send(next, chunk(count, ranks, sent_in_round(me.value, ranks, round)));
    plan.receive_reduce(previous, chunk(count, ranks, received_in_round(me.value, ranks, round)));
  }
  for (int round = 0; round < ranks - 1; ++round) {
    plan.send(next, chunk(count, ranks, wrap(me.value - round, ranks)));
    plan.receive(previous, chunk(count, ranks, wrap(me.value - round - 1, ranks)));
  }
  return plan.take();
}

/// The sum of chunk c starts on rank c+1, goes around the ring and ends on rank c.
Expression ring_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Count count,
                                 std::int64_t element) {
  const int ranks = static_cast<int>(contributions.size());
  const int last = chunk_of(count, ranks, element);
  Expression sum = Expressions::neutral();
  for (int i = 0; i < ranks; ++i)
    sum = expressions.combine(sum, contributions[static_cast<std::size_t>(adder(last, ranks, i))]);
  return sum;
}

/// The cost is exact if p divides the elements; otherwise the value for n rounded up to a multiple is an upper bound.
double ring_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int /*radix*/) {
  const double share = (ranks - 1.0) / ranks;
  return price(links.far, buffer, 2 * (ranks - 1.0), 2 * share, share);
}

Plan ring_all_gather(Rank me, const CollectiveDescription& d) {
  const Parts parts = parts_of(d);
  const auto part = [&](int index) { return parts.of(wrap(index, d.ranks), Memory::output); };
  PlanBuilder plan;
  for (int round = 0; round < d.ranks - 1; ++round) {
    plan.send(wrap(me.value + 1, d.ranks), part(me.value - round));
    plan.receive(wrap(me.value - 1, d.ranks), part(me.value - round - 1));
  }
  return contribute(plan.take(), d.own, part(me.value));
}

Plan ring_reduce_scatter(Rank me, const CollectiveDescription& d) {
  const Parts parts = parts_of(d);
  if (d.ranks == 1) return contribute({}, d.own, parts.alone(0, Memory::output));
  PlanBuilder plan;
  PartialSums sums(plan, parts, d.own);
  Range sum = sums.first(sent_in_round(me.value, d.ranks, 0));
  for (int round = 0; round < d.ranks - 1; ++round) {
    plan.send(wrap(me.value + 1, d.ranks), sum);
    const int index = received_in_round(me.value, d.ranks, round);
    sum = sums.received(round, index);
    sums.receive(wrap(me.value - 1, d.ranks), sum, index);
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
