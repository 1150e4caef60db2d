// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/by_cache.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

ClusterShape caches_of(const CollectiveDescription& d) {
  ClusterShape caches;
  for (int rank = 0; rank < d.ranks; ++rank) caches.node_of_rank.push_back(rank / d.ranks_per_cache);
  return caches;
}

TreeShares sums_of_caches(const CollectiveDescription& d) { return shares_of_nodes(operands_of(d), caches_of(d)); }

/// Builds one rank's plan.
class ByCache {
 public:
  ByCache(Rank me, const CollectiveDescription& d)
      : d_(d),
        own_(me.value),
        cache_(me.value / d.ranks_per_cache),
        place_(me.value % d.ranks_per_cache),
        caches_((d.ranks + d.ranks_per_cache - 1) / d.ranks_per_cache),
        inputs_(shares_of_ranks(operands_of(d), d.ranks)),
        sums_(sums_of_caches(d)) {
    for (int rank = cache_ * d.ranks_per_cache; rank < std::min(d.ranks, (cache_ + 1) * d.ranks_per_cache); ++rank)
      if (rank != me.value) near_.push_back(rank);
    // The readers of other caches are spread evenly over the ranks of a cache, of which the last one may have fewer.
    for (int cache = 0; cache < caches_; ++cache) {
      const int there = std::min(d.ranks_per_cache, d.ranks - cache * d.ranks_per_cache);
      partner_in_.push_back(cache == cache_ ? self : cache * d.ranks_per_cache + place_ % there);
      if (cache != cache_) far_.push_back(partner_in_.back());
    }
  }

  Plan pull() {
    const int inputs = inputs_of(own_);
    plan_.staging({(inputs + sums_of(cache_)) * d_.count.value});
    for (int leaf = 0; leaf < inputs; ++leaf) plan_.copy(staged(leaf), input(leaf));
    meet(near_, 0);
    for (int sum = 0; sum < sums_of(cache_); ++sum) add_cache(sum, {self, staged(inputs + sum)}, input(0));
    plan_.publish(1);
    plan_.await(far_, 1, true);
    TreeSources all;
    for (int cache = 0; cache < caches_; ++cache) {
      const int partner = partner_in_[static_cast<std::size_t>(cache)];
      const int behind = inputs_of(partner == self ? own_ : partner);
      for (int sum = 0; sum < sums_of(cache); ++sum)
        all.add(node_of(sums_, cache, sum), {partner, staged(behind + sum)});
    }
    add({{self, output()}}, all.below(root()));
    return plan_.take();
  }

  Plan slices() {
    const bool staged_here = d_.reach == Reach::staged;
    const Range mine = slice(place_, Memory::output);
    // What other ranks read or write is in the staging area, if they cannot access the output.
    const Range shown = staged_here ? slice(place_, Memory::staging) : mine;
    if (staged_here) {
      plan_.staging({inputs_of(own_) * d_.count.value});
      for (int leaf = 0; leaf < inputs_of(own_); ++leaf)
        for (const int rank : near_) copy_to_staging(leaf, slice(rank % d_.ranks_per_cache, Memory::input, leaf));
    }
    meet(near_, 0);
    add_cache(0, {self, shown}, slice(place_, Memory::input));
    plan_.publish(1);
    plan_.await(far_, 1, true);
    TreeSources all;
    std::vector<NodeRange> everywhere;
    for (int cache = 0; cache < caches_; ++cache) {
      const int partner = partner_in_[static_cast<std::size_t>(cache)];
      const NodeRange part{partner, part_of(partner == self ? shown : mine)};
      all.add(node_of(sums_, cache, 0), part);
      everywhere.push_back(part);
    }
    add(std::move(everywhere), all.below(root()));
    plan_.publish(2);
    plan_.await(far_, 2);
    std::vector<NodeRange> to;
    for (const int rank : near_) to.push_back({rank, mine});
    if (staged_here) to.push_back({self, mine});
    plan_.combine(std::move(to), {{self, shown}});
    plan_.publish(3);
    plan_.await(near_, 3);
    if (staged_here)
      for (const int rank : near_)
        plan_.copy(slice(rank % d_.ranks_per_cache, Memory::output), slice(rank % d_.ranks_per_cache, Memory::staging));
    return plan_.take();
  }

 private:
  void meet(const std::vector<int>& ranks, int phase) {
    plan_.publish(phase);
    plan_.await(ranks, phase);
  }

  void copy_to_staging(int leaf, const Range& from) {
    Range to = from;
    to.memory = Memory::staging;
    to.leaf = 0;
    to.offset += leaf * d_.count.value;
    plan_.copy(to, from);
  }

  /// Adds up a sum of this cache. @param range  of the inputs that are added up
  void add_cache(int sum, const NodeRange& to, Range range) {
    TreeSources inputs;
    const auto add_rank = [&](int rank, int name) {
      for (int leaf = 0; leaf < inputs_of(rank); ++leaf) {
        range.leaf = leaf;
        inputs.add(node_of(inputs_, rank, leaf), {name, range});
      }
    };
    for (const int rank : near_) add_rank(rank, rank);
    add_rank(own_, self);
    add({to}, inputs.below(node_of(sums_, cache_, sum)));
  }
  void add(std::vector<NodeRange> to, TreeSources::Ordered sources) {
    plan_.combine(std::move(to), std::move(sources.from), AdditionOrder::canonical, std::move(sources.widths));
  }

  [[nodiscard]] LeafNode root() const { return {0, operands_of(d_).total()}; }
  [[nodiscard]] int inputs_of(int rank) const {
    return static_cast<int>(inputs_[static_cast<std::size_t>(rank)].size());
  }
  [[nodiscard]] int sums_of(int cache) const { return static_cast<int>(sums_[static_cast<std::size_t>(cache)].size()); }
  static const LeafNode& node_of(const TreeShares& shares, int participant, int index) {
    return shares[static_cast<std::size_t>(participant)][static_cast<std::size_t>(index)];
  }

  [[nodiscard]] Range input(int leaf) const { return {Memory::input, 0, d_.count.value, leaf}; }
  [[nodiscard]] Range output() const { return {Memory::output, 0, d_.count.value}; }
  [[nodiscard]] Range staged(int index) const { return {Memory::staging, index * d_.count.value, d_.count.value}; }
  /// Returns the slice of the rank with this place in each cache.
  [[nodiscard]] Range slice(int place, Memory memory, int leaf = 0) const {
    const Range part = chunk(d_.count, d_.ranks_per_cache, place);
    return {memory, part.offset, part.count, leaf};
  }
  /// Returns the part of a slice that the rank of this cache reduces.
  [[nodiscard]] Range part_of(Range slice) const {
    const Range part = chunk({slice.count}, caches_, cache_);
    return {slice.memory, slice.offset + part.offset, part.count};
  }

  const CollectiveDescription& d_;
  int own_;
  int cache_;
  int place_;
  int caches_;
  TreeShares inputs_;            // by rank
  TreeShares sums_;              // by cache
  std::vector<int> near_;        // other ranks of the cache
  std::vector<int> far_;         // a rank of each other cache
  std::vector<int> partner_in_;  // by cache; `self` in the own one
  PlanBuilder plan_;
};

}  // namespace

bool adds_by_cache(const CollectiveDescription& d, Algorithm algorithm) {
  if (d.kind != CollectiveKind::all_reduce || algorithm != Algorithm::hierarchical_tree_order || d.shape.nodes() > 1 ||
      d.ranks_per_cache < 2 || d.ranks_per_cache >= d.ranks)
    return false;
  if (d.reach == Reach::pulled) return true;
  return d.ranks % d.ranks_per_cache == 0 && most_nodes(sums_of_caches(d)) == 1;
}

Plan all_reduce_by_cache(Rank me, const CollectiveDescription& d) {
  return d.reach == Reach::pulled ? ByCache(me, d).pull() : ByCache(me, d).slices();
}

int sums_staged_by_cache(const CollectiveDescription& d, Algorithm algorithm) {
  return d.reach == Reach::pulled && adds_by_cache(d, algorithm) ? most_nodes(sums_of_caches(d)) : 0;
}

double pull_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates) {
  const double read = ranks_per_cache + ranks / ranks_per_cache - 2;
  return price(rates, buffer, 2, read, read) + (read - 2) * rates.peer_seconds;
}

double slices_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates) {
  const double near = (ranks_per_cache - 1.0) / ranks_per_cache;
  const double far = (ranks / ranks_per_cache - 1.0) / ranks;
  const double further = ranks_per_cache + ranks / ranks_per_cache - 4;
  return price(rates, buffer, 4, 2 * (near + far), near + far) + 2 * further * rates.peer_seconds;
}

}  // namespace lockstep::collectives
