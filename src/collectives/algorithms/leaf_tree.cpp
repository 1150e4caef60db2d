// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/leaf_tree.hpp"

#include <algorithm>

#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

/// Returns the elements of `part` in a range of the whole buffer.
Range within(Range whole, const Range& part) {
  whole.offset += part.offset;
  whole.count = part.count;
  return whole;
}

LeafNode root_of(const TreeShares& shares) {
  int leaves = 0;
  for (const auto& nodes : shares)
    for (const LeafNode& node : nodes) leaves = std::max(leaves, node.first + node.leaves);
  return {0, leaves};
}

}  // namespace

TreeShares shares_of_ranks(const LeafShares& leaves, int ranks) {
  TreeShares shares;
  for (int rank = 0; rank < ranks; ++rank) shares.push_back(tree_nodes(leaves.total(), leaves.of(rank, ranks)));
  return shares;
}

TreeShares shares_of_nodes(const LeafShares& leaves, const ClusterShape& shape) {
  TreeShares shares;
  for (int node = 0; node < shape.nodes(); ++node) {
    std::vector<Share> ranges;
    for (const int rank : shape.ranks_on(node)) {
      const Share own = leaves.of(rank, shape.ranks());
      const bool continues = !ranges.empty() && ranges.back().end() == own.first;
      continues ? void(ranges.back().count += own.count) : ranges.push_back(own);
    }
    shares.push_back(tree_nodes(leaves.total(), ranges));
  }
  return shares;
}

int most_nodes(const TreeShares& shares) {
  const auto longest =
      std::max_element(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return static_cast<int>(longest->size());
}

TreeSources::Ordered TreeSources::below(const LeafNode& node) const {
  std::vector<Source> sources = all_;
  std::erase_if(sources, [&](const Source& source) {
    return source.node.first < node.first || source.node.first >= node.first + node.leaves;
  });
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.node.first < b.node.first; });
  Ordered ordered;
  for (const Source& source : sources) {
    ordered.from.push_back(source.where);
    ordered.widths.push_back(source.node.leaves);
  }
  if (std::all_of(ordered.widths.begin(), ordered.widths.end(), [](int width) { return width == 1; }))
    ordered.widths.clear();
  return ordered;
}

Plan leaf_tree_all_reduce(Rank me, const TreeShares& shares, Count count, const std::function<Range(int node)>& own,
                          Count scratch) {
  const auto ranks = static_cast<int>(shares.size());
  const auto nodes_of = [&](int rank) -> const std::vector<LeafNode>& {
    return shares[static_cast<std::size_t>(rank)];
  };
  const Range mine = chunk(count, ranks, me.value);
  PlanBuilder plan;
  TreeSources sources;
  const auto& own_nodes = nodes_of(me.value);
  for (int node = 0; node < static_cast<int>(own_nodes.size()); ++node)
    sources.add(own_nodes[static_cast<std::size_t>(node)], {self, within(own(node), mine)});
  // Each rank starts with another peer, so that the ranks do not all send to the same one.
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = wrap(me.value + distance, ranks);
    for (int node = 0; node < static_cast<int>(own_nodes.size()); ++node)
      plan.send(to, within(own(node), chunk(count, ranks, to)));
    const int from = wrap(me.value - distance, ranks);
    for (const LeafNode& node : nodes_of(from)) {
      const Range landing{Memory::scratch, scratch.value, mine.count};
      plan.receive(from, landing);
      sources.add(node, {self, landing});
      scratch.value += mine.count;
    }
  }
  plan.scratch(scratch);
  TreeSources::Ordered all = sources.below(root_of(shares));
  plan.combine({{self, mine}}, std::move(all.from), AdditionOrder::canonical, std::move(all.widths));
  for (int distance = 1; distance < ranks; ++distance) {
    plan.send(wrap(me.value + distance, ranks), mine);
    const int from = wrap(me.value - distance, ranks);
    plan.receive(from, chunk(count, ranks, from));
  }
  return plan.take();
}

}  // namespace lockstep::collectives
