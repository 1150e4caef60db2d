// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/by_cache.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/algorithms/lane.hpp"
#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

/// Returns which operands the ranks of a node add up: on one node all, in the order of ranks, otherwise one of each
/// rank of the node.
LeafShares operands_of_node(const CollectiveDescription& d) {
  const ClusterShape shape = shape_of(d);
  return shape.nodes() == 1 ? operands_of(d) : LeafShares(static_cast<int>(shape.ranks_on(0).size()));
}

/// Returns the tree nodes that each cache of a node of `ranks` ranks adds up.
TreeShares sums_of_caches(const CollectiveDescription& d, int ranks) {
  ClusterShape caches;
  for (int local = 0; local < ranks; ++local) caches.node_of_rank.push_back(local / d.ranks_per_cache);
  return shares_of_nodes(operands_of_node(d), caches);
}

/// Builds one rank's plan. The ranks of the node are numbered from 0.
class ByCache {
 public:
  ByCache(Rank me, const CollectiveDescription& d)
      : d_(d),
        shape_(shape_of(d)),
        node_(shape_.node_of_rank[static_cast<std::size_t>(me.value)]),
        locals_(shape_.ranks_on(node_)),
        own_(static_cast<int>(std::find(locals_.begin(), locals_.end(), me.value) - locals_.begin())),
        width_(d.ranks_per_cache),
        caches_((size() + width_ - 1) / width_),
        operands_(operands_of_node(d)),
        inputs_(shares_of_ranks(operands_, size())),
        sums_(sums_of_caches(d, size())) {
    for (int local = own_ / width_ * width_; local < std::min(size(), (own_ / width_ + 1) * width_); ++local)
      if (local != own_) near_.push_back(local);
    // The readers in other caches are spread evenly over the ranks of a cache, of which the last one may have fewer.
    for (int cache = 0; cache < caches_; ++cache) {
      const int there = std::min(width_, size() - cache * width_);
      partners_.push_back(cache == own_ / width_ ? own_ : cache * width_ + own_ % width_ % there);
    }
  }

  Plan pull() {
    const int cache = own_ / width_;
    plan_.staging({(inputs_of(own_) + sums_of(cache)) * d_.count.value});
    for (int leaf = 0; leaf < inputs_of(own_) && !near_.empty(); ++leaf) plan_.copy(staged(leaf), input(leaf));
    meet(near(), 0);
    for (int sum = 0; sum < sums_of(cache); ++sum) add_cache(sum, {self, staged(inputs_of(own_) + sum)}, input(0));
    meet(far(), 1, true);
    TreeSources all;
    for (int other = 0; other < caches_; ++other) {
      const int partner = partners_[static_cast<std::size_t>(other)];
      for (int sum = 0; sum < sums_of(other); ++sum)
        all.add(node_of(sums_, other, sum), {name(partner), staged(inputs_of(partner) + sum)});
    }
    add({{self, output()}}, all.below(root()));
    return plan_.take();
  }

  Plan slices(Algorithm algorithm) {
    const bool staged_here = d_.reach == Reach::staged;
    const Range mine = slice(own_, Memory::output);
    // What other ranks read or write of this rank is in the staging area, if they cannot access the output.
    const Range shown = staged_here ? slice(own_, Memory::staging) : mine;
    if (staged_here) show_contribution();
    meet(near(), 0);
    add_cache(0, {self, shown}, slice(own_, Memory::input));
    meet(far(), 1, true);
    reduce_part(mine, shown, algorithm);
    meet(far(), 2);
    std::vector<NodeRange> to;
    for (const int local : near_) to.push_back({name(local), mine});
    if (staged_here && shape_.nodes() == 1) to.push_back({self, mine});
    plan_.combine(std::move(to), {{self, shown}});
    if (staged_here && shape_.nodes() > 1) fetch_parts_of_others(mine);
    meet(near(), 3);
    if (staged_here)
      for (const int local : near_) plan_.copy(slice(local, Memory::output), slice(local, Memory::staging));
    return plan_.take();
  }

 private:
  /// Publishes a phase, and awaits the same one of other ranks.
  void meet(std::vector<int> ranks, int phase, bool hears_of_all = false) {
    plan_.publish(phase);
    plan_.await(std::move(ranks), phase, hears_of_all);
  }

  /// Copies the inputs into the staging area, except for this rank's own slice, which no other rank reads.
  void show_contribution() {
    plan_.staging({inputs_of(own_) * d_.count.value});
    for (int leaf = 0; leaf < inputs_of(own_); ++leaf)
      for (const int local : near_) {
        Range to = slice(local, Memory::staging);
        to.offset += leaf * d_.count.value;
        plan_.copy(to, slice(local, Memory::input, leaf));
      }
  }

  /// Adds up this rank's part of its slice over the caches, and over the nodes if there are several, and writes it to
  /// all that have this slice.
  void reduce_part(const Range& mine, const Range& shown, Algorithm algorithm) {
    TreeSources caches;
    std::vector<NodeRange> everywhere;
    for (int cache = 0; cache < caches_; ++cache) {
      const int partner = partners_[static_cast<std::size_t>(cache)];
      const NodeRange part{name(partner), part_of(partner == own_ ? shown : mine)};
      caches.add(node_of(sums_, cache, 0), part);
      everywhere.push_back(part);
    }
    if (shape_.nodes() == 1) return add(std::move(everywhere), caches.below(root()));
    const Range part = part_of(mine);
    add({{self, part}}, caches.below(root()));
    const Plan across = row_of(algorithm).plan({node_}, shape_.nodes(), {part.count}, d_.radix);
    const Lane lane(shape_, own_, part.offset);
    plan_.scratch(across.scratch);
    for (const Step& step : across.steps) plan_.append(lane.translate(step));
    std::erase(everywhere, NodeRange{self, part});
    plan_.combine(std::move(everywhere), {{self, part}});
  }

  /// Copies what the partners have written into the staging area, on both sides of this rank's own part.
  void fetch_parts_of_others(const Range& mine) {
    const Range part = part_of(mine);
    const std::int64_t behind = part.offset + part.count;
    for (Range range : {Range{Memory::output, mine.offset, part.offset - mine.offset},
                        Range{Memory::output, behind, mine.offset + mine.count - behind}}) {
      const Range to = range;
      range.memory = Memory::staging;
      plan_.copy(to, range);
    }
  }

  /// Adds up a sum of this cache. @param range  of the inputs that are added up
  void add_cache(int sum, const NodeRange& to, Range range) {
    TreeSources inputs;
    const auto add_rank = [&](int local) {
      for (range.leaf = 0; range.leaf < inputs_of(local); ++range.leaf)
        inputs.add(node_of(inputs_, local, range.leaf), {name(local), range});
    };
    for (const int local : near_) add_rank(local);
    add_rank(own_);
    add({to}, inputs.below(node_of(sums_, own_ / width_, sum)));
  }
  void add(std::vector<NodeRange> to, TreeSources::Ordered sources) {
    plan_.combine(std::move(to), std::move(sources.from), AdditionOrder::canonical, std::move(sources.widths));
  }

  [[nodiscard]] int size() const { return static_cast<int>(locals_.size()); }
  /// Returns what a plan calls a rank of the node.
  [[nodiscard]] int name(int local) const { return local == own_ ? self : locals_[static_cast<std::size_t>(local)]; }
  [[nodiscard]] std::vector<int> near() const { return named(near_); }
  [[nodiscard]] std::vector<int> far() const { return without(named(partners_), self); }
  [[nodiscard]] std::vector<int> named(std::vector<int> locals) const {
    for (int& local : locals) local = name(local);
    return locals;
  }

  [[nodiscard]] LeafNode root() const { return {0, operands_.total()}; }
  [[nodiscard]] int inputs_of(int local) const {
    return static_cast<int>(inputs_[static_cast<std::size_t>(local)].size());
  }
  [[nodiscard]] int sums_of(int cache) const { return static_cast<int>(sums_[static_cast<std::size_t>(cache)].size()); }
  static const LeafNode& node_of(const TreeShares& shares, int participant, int index) {
    return shares[static_cast<std::size_t>(participant)][static_cast<std::size_t>(index)];
  }

  [[nodiscard]] Range input(int leaf) const { return {Memory::input, 0, d_.count.value, leaf}; }
  [[nodiscard]] Range output() const { return {Memory::output, 0, d_.count.value}; }
  [[nodiscard]] Range staged(int index) const { return {Memory::staging, index * d_.count.value, d_.count.value}; }
  /// Returns the slice of a rank, which depends on its place in its cache.
  [[nodiscard]] Range slice(int local, Memory memory, int leaf = 0) const {
    const Range part = chunk(d_.count, width_, local % width_);
    return {memory, part.offset, part.count, leaf};
  }
  /// Returns the part of a slice that the rank of this cache reduces.
  [[nodiscard]] Range part_of(Range slice) const {
    const Range part = chunk({slice.count}, caches_, own_ / width_);
    return {slice.memory, slice.offset + part.offset, part.count};
  }

  const CollectiveDescription& d_;
  ClusterShape shape_;
  int node_;
  std::vector<int> locals_;  // ranks of the node
  int own_;
  int width_;
  int caches_;
  LeafShares operands_;
  TreeShares inputs_;          // by rank of the node
  TreeShares sums_;            // by cache
  std::vector<int> near_;      // other ranks of the cache
  std::vector<int> partners_;  // by cache, this rank in its own
  PlanBuilder plan_;
};

}  // namespace

bool adds_by_cache(const CollectiveDescription& d, Algorithm algorithm) {
  const ClusterShape shape = shape_of(d);
  const auto ranks = static_cast<int>(shape.ranks_on(0).size());
  if (d.kind != CollectiveKind::all_reduce || !uses_shared_memory(algorithm) || d.ranks_per_cache < 2 ||
      d.ranks_per_cache >= ranks)
    return false;
  if (shape.nodes() == 1 && !is_canonical(algorithm)) return false;
  if (d.reach == Reach::pulled) return true;
  if (shape.nodes() > 1 && (d.leaves.total() > 0 || lanes(shape) * shape.nodes() != d.ranks)) return false;
  return ranks % d.ranks_per_cache == 0 && most_nodes(sums_of_caches(d, ranks)) == 1;
}

Plan all_reduce_by_cache(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  return d.reach == Reach::pulled ? ByCache(me, d).pull() : ByCache(me, d).slices(algorithm);
}

Expression by_cache_order(const CollectiveDescription& d, Algorithm algorithm, Expressions& expressions,
                          std::span<const Expression> contributions, std::int64_t element) {
  const ClusterShape shape = shape_of(d);
  std::vector<Expression> sums;
  for (const auto& own : by_node(contributions, shape)) sums.push_back(canonical_tree_order(expressions, own));
  if (sums.size() == 1) return sums.front();
  const auto caches = static_cast<int>(shape.ranks_on(0).size()) / d.ranks_per_cache;
  const Range slice = chunk(d.count, d.ranks_per_cache, chunk_of(d.count, d.ranks_per_cache, element));
  const Range part = chunk({slice.count}, caches, chunk_of({slice.count}, caches, element - slice.offset));
  return row_of(algorithm).order(expressions, sums, {part.count}, element - slice.offset - part.offset);
}

int sums_staged_by_cache(const CollectiveDescription& d, Algorithm algorithm) {
  return d.reach == Reach::pulled && adds_by_cache(d, algorithm) ? most_nodes(sums_of_caches(d, d.ranks)) : 0;
}

double pull_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates) {
  const int caches = ranks / ranks_per_cache;
  const int read = ranks_per_cache + caches - 2;
  return price(rates, buffer, 2, read, read) + (read - 2) * rates.peer_seconds;
}

double slices_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates) {
  const int caches = ranks / ranks_per_cache;
  const double near = (ranks_per_cache - 1.0) / ranks_per_cache;
  const double far = (caches - 1.0) / ranks;
  const int further = ranks_per_cache + caches - 4;
  return price(rates, buffer, 4, 2 * (near + far), near + far) + 2 * further * rates.peer_seconds;
}

}  // namespace lockstep::collectives
