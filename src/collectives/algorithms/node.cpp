// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/node.hpp"

#include <numeric>

#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/plan/partition.hpp"

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

/// Returns the plan of a rank other than the root: it waits for the root, moves its part, and says so.
Plan move_part(Rank root, const NodeRange& to, const NodeRange& from) {
  PlanBuilder plan;
  plan.publish(0);
  plan.await({root.value}, 0);
  plan.combine({to}, {from});
  plan.publish(1);
  return plan.take();
}

}  // namespace

Plan pull_all_reduce(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  const int ranks = d.ranks;
  const Count count = d.count;
  const auto input = [&](int leaf) { return Range{Memory::input, 0, count.value, leaf}; };
  const LeafShares operands = operands_of(d);
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
  if (ranks > 1 || !d.own.in_place)
    plan.combine({{self, {Memory::output, 0, count.value}}}, std::move(from), addition_order(algorithm),
                 std::move(widths));
  return plan.take();
}

double pull_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  return ranks == 1 ? 0 : price(rates, buffer, 1, ranks - 1, ranks - 1) + (ranks - 2) * rates.peer_seconds;
}

Plan node_reduce_scatter(Rank me, const CollectiveDescription& d) {
  const Parts parts = parts_of(d);
  PlanBuilder plan;
  if (d.reach == Reach::staged) show_parts(plan, me, parts);
  plan.publish(0);
  plan.await(others(me, d.ranks), 0);
  if (d.ranks > 1 || !d.own.in_place)
    plan.combine({{self, parts.alone(me.value, Memory::output)}},
                 everyones(me, d.ranks, parts.of(me.value, Memory::input)));
  plan.publish(1);
  if (d.reach == Reach::direct) plan.await(others(me, d.ranks), 1);
  return plan.take();
}

Plan node_all_gather(Rank me, const CollectiveDescription& d) {
  const Parts parts = parts_of(d);
  const Range own = parts.alone(me.value, Memory::input);
  PlanBuilder plan;
  if (d.reach == Reach::staged) {
    plan.staging({own.count});
    if (d.ranks > 1) plan.copy(in(Memory::staging, own), own);
  }
  plan.publish(0);
  if (!d.own.in_place) plan.copy(parts.of(me.value, Memory::output), own);
  plan.await(others(me, d.ranks), 0);
  for (const int peer : others(me, d.ranks))
    plan.combine({{self, parts.of(peer, Memory::output)}}, {{peer, parts.alone(peer, Memory::input)}});
  plan.publish(1);
  if (d.reach == Reach::direct) plan.await(others(me, d.ranks), 1);
  return plan.take();
}

Plan node_broadcast(Rank me, const CollectiveDescription& d) {
  const Range whole{Memory::output, 0, d.count.value};
  if (me != d.root) return move_part(d.root, {self, whole}, {d.root.value, whole});
  PlanBuilder plan;
  if (d.reach == Reach::staged && d.ranks > 1) {
    plan.staging(d.count);
    plan.copy(in(Memory::staging, whole), whole);
  }
  plan.publish(0);
  if (d.reach == Reach::direct) plan.await(others(me, d.ranks), 1);
  return plan.take();
}

Plan node_reduce(Rank me, const CollectiveDescription& d) {
  const std::vector<int> peers = others(me, d.ranks);
  const auto slice = [&](int rank) { return chunk(d.count, d.ranks, rank); };
  const bool staged = d.reach == Reach::staged && d.ranks > 1;
  PlanBuilder plan;
  if (staged) {
    plan.staging(d.count);
    for (const int peer : peers) plan.copy(in(Memory::staging, slice(peer)), in(Memory::input, slice(peer)));
  }
  plan.publish(0);
  plan.await(peers, 0);
  const Range own = slice(me.value);
  if (d.ranks > 1 || !d.own.in_place)
    plan.combine({{me == d.root ? self : d.root.value, own}}, everyones(me, d.ranks, in(Memory::input, own)));
  plan.publish(1);
  if (me == d.root || d.reach == Reach::direct) plan.await(peers, 1);
  if (me == d.root && staged)
    for (const int peer : peers) plan.copy(slice(peer), in(Memory::staging, slice(peer)));
  return plan.take();
}

Plan node_gather(Rank me, const CollectiveDescription& d) {
  const std::vector<int> peers = others(me, d.ranks);
  const Parts parts = parts_of(d);
  const Range own = parts.alone(me.value, Memory::input);
  if (me != d.root) return move_part(d.root, {d.root.value, parts.of(me.value, Memory::output)}, {self, own});
  PlanBuilder plan;
  const bool staged = d.reach == Reach::staged && d.ranks > 1;
  if (staged) plan.staging({d.ranks * d.count.value});
  plan.publish(0);
  if (!d.own.in_place) plan.copy(parts.of(me.value, Memory::output), own);
  plan.await(peers, 1);
  if (staged)
    for (const int peer : peers) plan.copy(parts.of(peer, Memory::output), parts.of(peer, Memory::staging));
  return plan.take();
}

Plan node_scatter(Rank me, const CollectiveDescription& d) {
  const std::vector<int> peers = others(me, d.ranks);
  const Parts parts = parts_of(d);
  const Range mine = parts.of(me.value, Memory::input);
  const Range own = parts.alone(me.value, Memory::output);
  if (me != d.root) return move_part(d.root, {self, own}, {d.root.value, mine});
  PlanBuilder plan;
  if (d.reach == Reach::staged && d.ranks > 1) show_parts(plan, me, parts);
  plan.publish(0);
  if (!d.own.in_place) plan.copy(own, mine);
  if (d.reach == Reach::direct) plan.await(peers, 1);
  return plan.take();
}

Plan node_all_to_all(Rank me, const CollectiveDescription& d) {
  const Parts parts = parts_of(d);
  PlanBuilder plan;
  if (d.reach == Reach::staged) show_parts(plan, me, parts);
  plan.publish(0);
  plan.copy(parts.of(me.value, Memory::output), parts.of(me.value, Memory::input));
  plan.await(others(me, d.ranks), 0);
  for (int distance = 1; distance < d.ranks; ++distance) {
    const int peer = wrap(me.value + distance, d.ranks);
    plan.combine({{self, parts.of(peer, Memory::output)}}, {{peer, parts.of(me.value, Memory::input)}});
  }
  plan.publish(1);
  if (d.reach == Reach::direct) plan.await(others(me, d.ranks), 1);
  return plan.take();
}

Plan node_scan(Rank me, const CollectiveDescription& d) {
  const Range input{Memory::input, 0, d.count.value};
  const Range output = in(Memory::output, input);
  std::vector<int> before(static_cast<std::size_t>(me.value));
  std::iota(before.begin(), before.end(), 0);
  std::vector<int> behind(static_cast<std::size_t>(d.ranks - me.value - 1));
  std::iota(behind.begin(), behind.end(), me.value + 1);
  std::vector<NodeRange> from = everyones(me, d.kind == CollectiveKind::scan ? me.value + 1 : me.value, input);
  PlanBuilder plan;
  const bool is_there = me.value == 0 && d.own.in_place;  // of an inclusive scan
  const auto write = [&](const Range& to) {
    if (from.empty()) {
      plan.fill(to);
    } else if (!is_there) {
      plan.combine({{self, to}}, from);
    }
  };
  if (d.reach == Reach::staged && !behind.empty()) {
    plan.staging(d.count);
    plan.copy(in(Memory::staging, input), d.own.in_place ? output : input);  // before a result replaces it
  }
  plan.publish(0);
  plan.await(before, 0);
  const bool is_read_in_place = d.own.in_place && d.reach == Reach::direct && !behind.empty();
  const bool is_kept = is_read_in_place && me.value > 0;
  if (is_kept) {
    plan.scratch(d.count);
    write(in(Memory::scratch, input));
  } else if (!is_read_in_place) {
    write(output);
  }
  plan.publish(1);
  if (d.reach == Reach::direct) plan.await(behind, 1);
  if (is_kept) {
    plan.copy(output, in(Memory::scratch, input));
  } else if (is_read_in_place) {
    write(output);
  }
  return plan.take();
}

Plan node_barrier(Rank me, const CollectiveDescription& d) {
  PlanBuilder plan;
  plan.publish(0);
  plan.await(others(me, d.ranks), 0);
  return plan.take();
}

}  // namespace lockstep::collectives
