// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/node.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

std::vector<int> others(Rank me, int ranks) {
  std::vector<int> peers;
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != me.value) peers.push_back(rank);
  return peers;
}

/// Returns the same range of every rank's memory, in the order of ranks.
std::vector<NodeRange> everyones(Rank me, int ranks, const Range& range) {
  std::vector<NodeRange> result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back({rank == me.value ? self : rank, range});
  return result;
}

Range in(Memory memory, Range range) {
  range.memory = memory;
  return range;
}

/// Copies all parts of the input into the staging area, except for the rank's own part, which no other rank reads.
void show_parts(PlanBuilder& plan, Rank me, const Parts& parts) {
  plan.staging({parts.ranks() * parts.stride().value});
  for (const int peer : others(me, parts.ranks()))
    plan.copy(parts.of(peer, Memory::staging), parts.of(peer, Memory::input));
}

}  // namespace

Plan pull_all_reduce(Rank me, int ranks, Count count, const NodePart& part) {
  const auto input = [&](int leaf) { return Range{Memory::input, 0, count.value, leaf}; };
  const LeafShares operands = part.operands(ranks);
  const TreeShares shares = shares_of_ranks(operands, ranks);
  const auto own = static_cast<int>(shares[static_cast<std::size_t>(me.value)].size());
  TreeSources sources;
  for (int rank = 0; rank < ranks; ++rank) {
    int leaf = 0;
    for (const LeafNode& node : shares[static_cast<std::size_t>(rank)])
      sources.add(node, {rank == me.value ? self : rank, input(leaf++)});
  }
  PlanBuilder plan;
  plan.staging({own * count.value});
  for (int leaf = 0; leaf < own && ranks > 1; ++leaf)
    plan.copy({Memory::staging, leaf * count.value, count.value}, input(leaf));
  plan.publish(0);
  plan.await(others(me, ranks), 0);
  auto [from, widths] = sources.below({0, operands.total()});
  if (ranks > 1 || !part.in_place)
    plan.combine({{self, {Memory::output, 0, count.value}}}, std::move(from), part.order, std::move(widths));
  return plan.take();
}

Plan node_reduce_scatter(Rank me, const Parts& parts, Reach reach, bool in_place) {
  const int ranks = parts.ranks();
  PlanBuilder plan;
  if (reach == Reach::staged) show_parts(plan, me, parts);
  plan.publish(0);
  plan.await(others(me, ranks), 0);
  if (ranks > 1 || !in_place)
    plan.combine({{self, parts.alone(me.value, Memory::output)}},
                 everyones(me, ranks, parts.of(me.value, Memory::input)));
  plan.publish(1);
  if (reach == Reach::direct) plan.await(others(me, ranks), 1);
  return plan.take();
}

Plan node_all_gather(Rank me, const Parts& parts, Reach reach, bool in_place) {
  const int ranks = parts.ranks();
  const Range own = parts.alone(me.value, Memory::input);
  PlanBuilder plan;
  if (reach == Reach::staged) {
    plan.staging({own.count});
    if (ranks > 1) plan.copy(in(Memory::staging, own), own);
  }
  plan.publish(0);
  if (!in_place) plan.copy(parts.of(me.value, Memory::output), own);
  plan.await(others(me, ranks), 0);
  for (const int peer : others(me, ranks))
    plan.combine({{self, parts.of(peer, Memory::output)}}, {{peer, parts.alone(peer, Memory::input)}});
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
    if (reach == Reach::direct) plan.await(others(me, ranks), 1);
    return plan.take();
  }
  plan.await({root.value}, 0);
  plan.combine({{self, whole}}, {{root.value, whole}});
  plan.publish(1);
  return plan.take();
}

Plan node_reduce(Rank me, int ranks, Count count, Rank root, Reach reach, bool in_place) {
  const std::vector<int> peers = others(me, ranks);
  const auto slice = [&](int rank) { return chunk(count, ranks, rank); };
  const bool staged = reach == Reach::staged && ranks > 1;
  PlanBuilder plan;
  if (staged) {
    plan.staging(count);
    for (const int peer : peers) plan.copy(in(Memory::staging, slice(peer)), in(Memory::input, slice(peer)));
  }
  plan.publish(0);
  plan.await(peers, 0);
  const Range own = slice(me.value);
  if (ranks > 1 || !in_place)
    plan.combine({{me == root ? self : root.value, own}}, everyones(me, ranks, in(Memory::input, own)));
  plan.publish(1);
  if (me == root || reach == Reach::direct) plan.await(peers, 1);
  if (me == root && staged)
    for (const int peer : peers) plan.copy(slice(peer), in(Memory::staging, slice(peer)));
  return plan.take();
}

Plan node_gather(Rank me, int ranks, Count count, Rank root, Reach reach, bool in_place) {
  const std::vector<int> peers = others(me, ranks);
  const auto part = [&](Memory memory, int rank) { return Range{memory, rank * count.value, count.value}; };
  const Range own{Memory::input, 0, count.value};
  PlanBuilder plan;
  if (me != root) {
    plan.publish(0);
    plan.await({root.value}, 0);
    plan.combine({{root.value, part(Memory::output, me.value)}}, {{self, own}});
    plan.publish(1);
    return plan.take();
  }
  const bool staged = reach == Reach::staged && ranks > 1;
  if (staged) plan.staging({ranks * count.value});
  plan.publish(0);
  if (!in_place) plan.copy(part(Memory::output, me.value), own);
  plan.await(peers, 1);
  if (staged)
    for (const int peer : peers) plan.copy(part(Memory::output, peer), part(Memory::staging, peer));
  return plan.take();
}

Plan node_scatter(Rank me, int ranks, Count count, Rank root, Reach reach, bool in_place) {
  const std::vector<int> peers = others(me, ranks);
  const Range mine{Memory::input, me.value * count.value, count.value};
  const Range own{Memory::output, 0, count.value};
  PlanBuilder plan;
  if (me != root) {
    plan.publish(0);
    plan.await({root.value}, 0);
    plan.combine({{self, own}}, {{root.value, mine}});
    plan.publish(1);
    return plan.take();
  }
  if (reach == Reach::staged && ranks > 1) show_parts(plan, me, Parts::equal(ranks, count));
  plan.publish(0);
  if (!in_place) plan.copy(own, mine);
  if (reach == Reach::direct) plan.await(peers, 1);
  return plan.take();
}

Plan node_all_to_all(Rank me, int ranks, Count count, Reach reach) {
  const auto part = [&](Memory memory, int rank) { return Range{memory, rank * count.value, count.value}; };
  PlanBuilder plan;
  if (reach == Reach::staged) show_parts(plan, me, Parts::equal(ranks, count));
  plan.publish(0);
  plan.copy(part(Memory::output, me.value), part(Memory::input, me.value));
  plan.await(others(me, ranks), 0);
  for (int distance = 1; distance < ranks; ++distance) {
    const int peer = wrap(me.value + distance, ranks);
    plan.combine({{self, part(Memory::output, peer)}}, {{peer, part(Memory::input, me.value)}});
  }
  plan.publish(1);
  if (reach == Reach::direct) plan.await(others(me, ranks), 1);
  return plan.take();
}

Plan node_barrier(Rank me, int ranks) {
  PlanBuilder plan;
  plan.publish(0);
  plan.await(others(me, ranks), 0);
  return plan.take();
}

}  // namespace lockstep::collectives
