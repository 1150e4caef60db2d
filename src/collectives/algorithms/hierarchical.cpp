// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/algorithms/lane.hpp"
#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

/// A rank's position in the cluster.
struct NodePosition {
  int node;
  std::vector<int> locals;  ///< ranks of the node, ascending
  int local;                ///< index of this rank among them
};

NodePosition position_of(Rank me, const ClusterShape& shape) {
  NodePosition position{shape.node_of_rank[static_cast<std::size_t>(me.value)], {}, 0};
  position.locals = shape.ranks_on(position.node);
  position.local =
      static_cast<int>(std::find(position.locals.begin(), position.locals.end(), me.value) - position.locals.begin());
  return position;
}

/// Builds one rank's plan.
class Builder {
 public:
  Builder(Rank me, const CollectiveDescription& d, Algorithm algorithm)
      : d_(d),
        algorithm_(algorithm),
        shape_(shape_of(d)),
        position_(position_of(me, shape_)),
        peers_(without(position_.locals, me.value)),
        lanes_(lanes(shape_)),
        leaves_(operands_of(d)),
        shares_(shares_of_ranks(leaves_, d.ranks)) {}

  Plan build(Rank me) {
    const bool alone = peers_.empty();
    const bool staged = d_.reach == Reach::staged && !alone;
    if (staged) show_contribution();
    if (!alone) plan_.publish(0);
    if (position_.local < lanes_) {
      plan_.await(peers_, 0);
      add_up(me);
      if (!adds_into_all()) {
        d_.leaves.total() > 0 ? exchange_nodes() : exchange();
        hand_out();
      }
      if (!alone) plan_.publish(1);
    }
    plan_.await(lane_owners(me), 1);
    if (staged) fetch_sums();
    return plan_.take();
  }

 private:
  [[nodiscard]] Range slice(int lane, Memory memory = Memory::output, int leaf = 0) const {
    const Range part = chunk(d_.count, lanes_, lane);
    return {memory, part.offset, part.count, leaf};
  }

  /// Returns the ranks of the node that own a slice.
  [[nodiscard]] std::vector<int> lane_owners(Rank me) const {
    return without({position_.locals.begin(), position_.locals.begin() + lanes_}, me.value);
  }

  /// Copies this rank's input into the staging area, where the other ranks read it.
  void show_contribution() {
    const int inputs = inputs_of(position_.locals[static_cast<std::size_t>(position_.local)]);
    plan_.staging({inputs * d_.count.value});
    for (int leaf = 0; leaf < inputs; ++leaf)
      for (int lane = 0; lane < lanes_; ++lane) {
        Range to = slice(lane, Memory::staging);
        to.offset += leaf * d_.count.value;
        if (lane != position_.local) plan_.copy(to, slice(lane, Memory::input, leaf));
      }
  }
  [[nodiscard]] int inputs_of(int rank) const {
    return static_cast<int>(shares_[static_cast<std::size_t>(rank)].size());
  }

  /// Returns whether the node's sum is the final result, so that the pass that computes it writes it to all ranks.
  [[nodiscard]] bool adds_into_all() const { return shape_.nodes() == 1; }

  void add_up(Rank me) {
    TreeSources sources;
    for (const int rank : position_.locals)
      for (int leaf = 0; leaf < inputs_of(rank); ++leaf)
        sources.add(shares_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(leaf)],
                    rank == me.value ? NodeRange{self, own_input(leaf)}
                                     : NodeRange{rank, slice(position_.local, Memory::input, leaf)});
    if (d_.leaves.total() > 0 && !adds_into_all()) return add_up_nodes(sources);
    std::vector<NodeRange> to{{self, slice(position_.local)}};
    if (adds_into_all())
      for (const int peer : peers_) to.push_back({peer, slice(position_.local)});
    auto [from, widths] = sources.below({0, leaves_.total()});
    if (from.size() > 1 || !d_.own.in_place)
      plan_.combine(to, std::move(from), addition_order(algorithm_), std::move(widths));
  }

  /// Returns this rank's own input. If it is in place, it is addressed as output, like the sum, so that `dependencies`
  /// orders the read before the write.
  [[nodiscard]] Range own_input(int leaf) const {
    return leaf == 0 && d_.own.in_place ? slice(position_.local) : slice(position_.local, Memory::input, leaf);
  }

  /// Adds as far as the ranks of this node can: the first sum goes where the result will be, the others into scratch.
  /// The first sum is computed last, because it may overwrite an input that another sum needs.
  void add_up_nodes(const TreeSources& sources) {
    nodes_ = shares_of_nodes(leaves_, shape_);
    const auto& own = nodes_[static_cast<std::size_t>(position_.node)];
    for (int node = static_cast<int>(own.size()) - 1; node >= 0; --node) {
      auto [from, widths] = sources.below(own[static_cast<std::size_t>(node)]);
      const bool lies_there = node == 0 && from.size() == 1 && from.front().rank == self && d_.own.in_place;
      if (!lies_there)
        plan_.combine({{self, sum_of_node(node)}}, std::move(from), addition_order(algorithm_), std::move(widths));
    }
  }
  /// Returns the range of this rank's slice that holds the node's sum of a tree node; scratch holds only this slice.
  [[nodiscard]] Range sum_of_node(int node) const {
    const Range mine = slice(position_.local);
    return node == 0 ? mine : Range{Memory::scratch, (node - 1) * mine.count, mine.count};
  }

  void exchange_nodes() {
    const Range mine = slice(position_.local);
    const auto others = static_cast<std::int64_t>(nodes_[static_cast<std::size_t>(position_.node)].size()) - 1;
    const auto own = [&](int node) {
      Range range = sum_of_node(node);
      if (node == 0) range.offset = 0;
      return range;
    };
    append(leaf_tree_all_reduce({position_.node}, nodes_, {mine.count}, own, {others * mine.count}));
  }

  void exchange() {
    append(row_of(algorithm_).plan({position_.node}, shape_.nodes(), {slice(position_.local).count}, d_.radix));
  }
  /// Appends the plan of this rank's lane.
  void append(const Plan& plan) {
    const Lane lane(shape_, position_.local, slice(position_.local).offset);
    plan_.scratch(plan.scratch);
    for (const Step& step : plan.steps) plan_.append(lane.translate(step));
  }

  void hand_out() {
    std::vector<NodeRange> targets;
    for (const int peer : peers_) targets.push_back({peer, slice(position_.local)});
    if (!targets.empty()) plan_.combine(targets, {{self, slice(position_.local)}});
  }

  void fetch_sums() {
    for (int lane = 0; lane < lanes_; ++lane)
      if (lane != position_.local) plan_.copy(slice(lane), slice(lane, Memory::staging));
  }

  const CollectiveDescription& d_;
  Algorithm algorithm_;
  ClusterShape shape_;
  NodePosition position_;
  std::vector<int> peers_;
  int lanes_;
  LeafShares leaves_;
  TreeShares shares_;  // by rank
  TreeShares nodes_;   // by node of the cluster
  PlanBuilder plan_;
};

}  // namespace

int lanes(const ClusterShape& shape) {
  std::vector<int> sizes(static_cast<std::size_t>(shape.nodes()));
  for (const int node : shape.node_of_rank) ++sizes[static_cast<std::size_t>(node)];
  return *std::min_element(sizes.begin(), sizes.end());
}

Plan hierarchical_all_reduce(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  return Builder(me, d, algorithm).build(me);
}

double shared_memory_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double share = (ranks - 1.0) / ranks;
  return ranks == 1 ? 0 : price(rates, buffer, 2, 2 * share, share) + 2 * (ranks - 2) * rates.peer_seconds;
}

std::vector<std::vector<Expression>> by_node(std::span<const Expression> contributions, const ClusterShape& shape) {
  std::vector<std::vector<Expression>> nodes(static_cast<std::size_t>(shape.nodes()));
  for (int rank = 0; rank < shape.ranks(); ++rank)
    nodes[static_cast<std::size_t>(shape.node_of_rank[static_cast<std::size_t>(rank)])].push_back(
        contributions[static_cast<std::size_t>(rank)]);
  return nodes;
}

Expression hierarchical_all_reduce_order(Algorithm algorithm, Expressions& expressions,
                                         std::span<const Expression> contributions, Count count, std::int64_t element,
                                         const ClusterShape& shape) {
  std::vector<Expression> sums;
  for (const auto& own : by_node(contributions, shape)) sums.push_back(expressions.left_fold(own));
  if (sums.size() == 1) return sums.front();
  const int lane_count = lanes(shape);
  const Range slice = chunk(count, lane_count, chunk_of(count, lane_count, element));
  return row_of(algorithm).order(expressions, sums, {slice.count}, element - slice.offset);
}

}  // namespace lockstep::collectives
