#include "lockstep/collectives/node.hpp"

#include "collectives/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

std::vector<int> others(Rank me, int ranks) {
  std::vector<int> peers;
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != me.value) peers.push_back(rank);
  return peers;
}

/// The same range of every rank's memory, in the order of ranks.
std::vector<NodeRange> everyones(Rank me, int ranks, const Range& range) {
  std::vector<NodeRange> result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back({rank == me.value ? self : rank, range});
  return result;
}

}  // namespace

Plan pull_all_reduce(Rank me, int ranks, Count count, bool in_place) {
  const Range input{Memory::input, 0, count.value};
  PlanBuilder plan;
  plan.staging(count);
  if (ranks > 1) plan.copy({Memory::staging, 0, count.value}, input);
  plan.publish(0);
  plan.await(others(me, ranks), 0);
  if (ranks > 1 || !in_place) plan.combine({{self, {Memory::output, 0, count.value}}}, everyones(me, ranks, input));
  return plan.take();
}

Plan node_reduce_scatter(Rank me, int ranks, Count count, Reach reach, bool in_place) {
  const std::int64_t n = count.value;
  const std::int64_t before = me.value * n;
  PlanBuilder plan;
  if (reach == Reach::staged) {
    plan.staging({ranks * n});
    for (const int peer : others(me, ranks)) plan.copy({Memory::staging, peer * n, n}, {Memory::input, peer * n, n});
  }
  plan.publish(0);
  plan.await(others(me, ranks), 0);
  if (ranks > 1 || !in_place)
    plan.combine({{self, {Memory::output, 0, n}}}, everyones(me, ranks, {Memory::input, before, n}));
  plan.publish(1);
  if (reach == Reach::direct) plan.await(others(me, ranks), 1);
  return plan.take();
}

Plan node_all_gather(Rank me, int ranks, Count count, Reach reach, bool in_place) {
  const std::int64_t n = count.value;
  const Range own{Memory::input, 0, n};
  PlanBuilder plan;
  if (reach == Reach::staged) {
    plan.staging(count);
    if (ranks > 1) plan.copy({Memory::staging, 0, n}, own);
  }
  plan.publish(0);
  if (!in_place) plan.copy({Memory::output, me.value * n, n}, own);
  plan.await(others(me, ranks), 0);
  for (const int peer : others(me, ranks)) plan.combine({{self, {Memory::output, peer * n, n}}}, {{peer, own}});
  plan.publish(1);
  if (reach == Reach::direct) plan.await(others(me, ranks), 1);
  return plan.take();
}

Plan node_broadcast(Rank me, int ranks, Count count, Rank root, Reach reach) {
  const Range whole{Memory::output, 0, count.value};
  PlanBuilder plan;
  if (reach == Reach::staged && me == root && ranks > 1) {
    plan.staging(count);
    plan.copy({Memory::staging, 0, count.value}, whole);
  }
  plan.publish(0);
  if (me == root) {
    plan.await(others(me, ranks), 1);
    return plan.take();
  }
  plan.await({root.value}, 0);
  plan.combine({{self, whole}}, {{root.value, whole}});
  plan.publish(1);
  return plan.take();
}

Plan node_barrier(Rank me, int ranks) {
  PlanBuilder plan;
  plan.publish(0);
  plan.await(others(me, ranks), 0);
  return plan.take();
}

}  // namespace lockstep::collectives
