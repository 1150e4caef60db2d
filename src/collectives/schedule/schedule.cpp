// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/schedule.hpp"

#include <algorithm>

#include "collectives/algorithms/by_cache.hpp"
#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/algorithms/node.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

void require(bool condition, const CollectiveDescription& d, const std::string& what) {
  if (!condition) throw Error(ErrorCode::invalid_argument, what, {.operation = std::string(name(d.kind))});
}

/// Returns whether a rank contributes exactly one leaf, because nothing is reduced, or by a scan.
bool takes_one_leaf(CollectiveKind kind) {
  return (!is_reduction(kind) || is_scan(kind)) && kind != CollectiveKind::broadcast && kind != CollectiveKind::barrier;
}

void check_parts(const CollectiveDescription& d, const std::vector<std::int64_t>& parts) {
  require(parts.size() == static_cast<std::size_t>(d.ranks), d,
          "there are counts of " + std::to_string(parts.size()) + " parts for " + std::to_string(d.ranks) + " ranks");
  for (const std::int64_t part : parts)
    require(0 <= part && part <= d.count.value, d,
            "a part has " + std::to_string(part) + " elements, the longest " + std::to_string(d.count.value));
}

void check_leaves(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  require(d.kind == CollectiveKind::all_reduce && is_canonical(algorithm), d,
          "the leaves of a tree are added up by an all_reduce in tree order only");
  const int total = d.leaves.total();
  require(total >= d.ranks, d, std::to_string(total) + " leaves are too few for " + std::to_string(d.ranks) + " ranks");
  require(d.leaves.ranks() == 0 || d.leaves.ranks() == d.ranks, d,
          "the leaves are shared among " + std::to_string(d.leaves.ranks()) + " ranks, not " + std::to_string(d.ranks));
  const int own = count_tree_nodes(total, d.leaves.of(me.value, d.ranks));
  require(d.own.leaves == own, d,
          "this rank brings " + std::to_string(d.own.leaves) + " sums; its share of " + std::to_string(total) +
              " leaves are " + std::to_string(own));
}

/// Rejects a description from which no schedule can be made.
void check(Rank me, const CollectiveDescription& d, Algorithm algorithm, Count segment) {
  const auto is_rank = [&](Rank r) { return 0 <= r.value && r.value < d.ranks; };
  const std::string range = "; it must lie between 0 and " + std::to_string(d.ranks - 1);
  require(d.ranks >= 1, d, "the number of ranks is " + std::to_string(d.ranks) + "; it must be at least 1");
  require(is_rank(me), d, "the rank is " + std::to_string(me.value) + range);
  require(!has_root(d.kind) || is_rank(d.root), d, "the root is " + std::to_string(d.root.value) + range);
  require(d.count >= 0, d, "the count is " + std::to_string(d.count.value) + "; it must not be negative");
  require(d.kind != CollectiveKind::barrier || d.count == 0, d,
          "the count is " + std::to_string(d.count.value) + "; a barrier has no elements");
  require(segment >= 1, d, "the segment has " + std::to_string(segment.value) + " elements; give at least 1");
  require(d.radix >= 2, d, "the radix is " + std::to_string(d.radix) + "; it must be at least 2");
  require(d.own.leaves >= 0, d,
          "the number of leaves is " + std::to_string(d.own.leaves) + "; it must not be negative");
  if (d.leaves.total() != 0) check_leaves(me, d, algorithm);
  require((!takes_one_leaf(d.kind) && !uses_shared_memory(algorithm)) || d.own.leaves == 1 || d.leaves.total() > 0, d,
          "a rank brings one leaf to " +
              std::string(name(takes_one_leaf(d.kind) ? d.kind : CollectiveKind::all_gather)) +
              " or to shared memory, not " + std::to_string(d.own.leaves));
  require(!is_all_to_all(d.kind) || !d.own.in_place, d, "an all_to_all cannot be done in place");
  if (has_part_counts(d.kind)) check_parts(d, d.parts);
  if (d.kind == CollectiveKind::all_to_all_v) check_parts(d, d.received);
  require(d.shape.ranks() == 0 || d.shape.ranks() == d.ranks, d,
          "the shape is of " + std::to_string(d.shape.ranks()) + " ranks, not " + std::to_string(d.ranks));
  require(algorithm != Algorithm::hierarchical_tree_order || d.leaves.total() > 0 || keeps_canonical_order(shape_of(d)),
          d, "these nodes' ranks are no subtrees of the canonical tree; tree-order then sends messages");
  require(d.ranks_per_cache >= 0, d,
          "the ranks of a cache are " + std::to_string(d.ranks_per_cache) + "; their number must not be negative");
  const bool needs_one_node = algorithm == Algorithm::shared_memory || d.reach == Reach::pulled;
  require(!needs_one_node || d.shape.nodes() <= 1, d,
          "ranks of " + std::to_string(d.shape.nodes()) + " nodes share no memory");
}

/// Returns whether a rank's staging area has a part for each rank, in the plan of at least one rank.
bool stages_parts(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce_scatter_v ||
         kind == CollectiveKind::all_to_all || kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
}

/// Returns the elements (of the buffer, or of each part) of a block in shared memory.
Count shared_block_count(const CollectiveDescription& d, Algorithm algorithm, Count segment, Count staging) {
  const int inputs = most_nodes(shares_of_ranks(operands_of(d), d.ranks));
  const std::int64_t parts = stages_parts(d.kind) ? d.ranks : inputs + sums_staged_by_cache(d, algorithm);
  const Count fits{staging.value / parts};
  if (fits.value == 0) {
    throw Error(ErrorCode::invalid_argument,
                "the staging area has " + std::to_string(staging.value) + " elements, too few for " +
                    std::to_string(parts) + " parts",
                {.operation = std::string(name(d.kind))});
  }
  const ClusterShape shape = shape_of(d);
  if (shape.nodes() == 1) return fits;
  const Count across = block_count(d.kind, across_nodes(algorithm), shape.nodes(), segment);
  return across.value < fits.value / lanes(shape) ? Count{lanes(shape) * across.value} : fits;
}

/// Makes the schedule for blocks of equal length and a shorter last one.
Schedule schedule_of_equal_parts(Rank me, const CollectiveDescription& d, Algorithm algorithm, Count block) {
  std::vector<Stretch> stretches;
  const auto add = [&](std::int64_t blocks, std::int64_t count) {
    if (blocks == 0) return;
    CollectiveDescription one = d;
    one.count = {count};
    stretches.push_back({.end = (stretches.empty() ? 0 : stretches.back().end) + blocks,
                         .part_count = std::max<std::int64_t>(count, 1),
                         .plan = make_plan(me, one, algorithm)});
  };
  add(d.count.value / block.value, block.value);
  const std::int64_t rest = d.count.value % block.value;
  add(rest > 0 || d.kind == CollectiveKind::barrier ? 1 : 0, rest);
  return {std::move(stretches), d.count, block};
}

/// Returns the positions of the parts of equal blocks in a buffer that holds only the caller's part, or the
/// concatenated parts of all ranks.
PartOffsets offsets_of(const EqualBlocks& cut, const std::vector<std::int64_t>& parts, bool is_alone) {
  PartOffsets offsets{.is_alone = is_alone};
  std::int64_t part_begin = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    offsets.parts.push_back({part_begin + cut.begin[k], cut.counts[k]});
    if (!is_alone) part_begin += parts[k];
  }
  return offsets;
}

/// Makes the schedule of an all_gather_v or reduce_scatter_v.
Schedule schedule_of_parts(Rank me, const CollectiveDescription& d, Algorithm algorithm, Count block) {
  const bool gathers = d.kind == CollectiveKind::all_gather_v;
  std::vector<Stretch> stretches;
  std::int64_t end = 0;
  for (const EqualBlocks& cut : cut_evenly(d.parts, block)) {
    CollectiveDescription one = d;
    one.parts = cut.counts;
    one.count = {*std::max_element(cut.counts.begin(), cut.counts.end())};
    end += cut.blocks;
    stretches.push_back({.end = end,
                         .part_count = one.count.value,
                         .plan = make_plan(me, one, algorithm),
                         .table = {offsets_of(cut, d.parts, gathers), offsets_of(cut, d.parts, !gathers)}});
  }
  return {std::move(stretches), std::nullopt};
}

/// One side of an all_to_all_v: the messages that a rank sends to all ranks, or receives from them.
class Side {
 public:
  Side(const std::vector<std::int64_t>& parts, Count segment) {
    for (const std::int64_t part : parts) messages_.emplace_back(part, segment);
  }
  [[nodiscard]] std::int64_t blocks() const {
    std::int64_t most = 0;
    for (const PairMessages& pair : messages_) most = std::max(most, pair.size());
    return most;
  }
  [[nodiscard]] std::vector<std::int64_t> counts(std::int64_t block) const {
    std::vector<std::int64_t> all;
    for (const PairMessages& pair : messages_) all.push_back(pair[block]);
    return all;
  }
  /// Returns the positions of the parts from this block on. @param parts  as given to the constructor
  [[nodiscard]] PartOffsets offsets(std::int64_t block, const std::vector<std::int64_t>& parts) const {
    PartOffsets offsets;
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      offsets.parts.push_back({begin + block * messages_[k].length(), messages_[k].length()});
      begin += parts[k];
    }
    return offsets;
  }

 private:
  std::vector<PairMessages> messages_;  ///< by rank
};

Schedule schedule_of_pairs(Rank me, const CollectiveDescription& d, Algorithm algorithm, Count segment) {
  const Side sent(d.parts, segment);
  const Side received(d.received, segment);
  const std::int64_t size = std::max(sent.blocks(), received.blocks());
  const bool is_empty = d.ranks == 1 && d.parts[0] == 0;
  std::vector<Stretch> stretches;
  CollectiveDescription last = d;
  for (std::int64_t block = 0; block < size && !is_empty; ++block) {
    CollectiveDescription one = d;
    one.parts = sent.counts(block);
    one.received = received.counts(block);
    if (!stretches.empty() && one.parts == last.parts && one.received == last.received) {
      stretches.back().end = block + 1;
      continue;
    }
    one.count = {std::max({*std::max_element(one.parts.begin(), one.parts.end()),
                           *std::max_element(one.received.begin(), one.received.end()), std::int64_t{1}})};
    stretches.push_back({.end = block + 1,
                         .part_count = one.count.value,
                         .plan = make_plan(me, one, algorithm),
                         .table = {sent.offsets(block, d.parts), received.offsets(block, d.received)}});
    last = std::move(one);
  }
  return {std::move(stretches), std::nullopt};
}

}  // namespace

std::size_t Schedule::stretch_of(std::int64_t block) const {
  std::size_t number = 0;
  while (block >= stretches_[number].end) ++number;
  return number;
}

Block Schedule::block(std::int64_t index) const {
  const BlockView at = view(index);
  return {at.offset, at.part_count};
}

BlockView Schedule::view(std::int64_t block) const {
  const std::size_t number = stretch_of(block);
  const Stretch& stretch = stretches_[number];
  if (part_stride_) return {stretch.part_count, part_stride_->value, block * step_.value};
  const std::int64_t first = number == 0 ? 0 : stretches_[number - 1].end;
  return {stretch.part_count, 0, 0, &stretch.table, block - first};
}

Schedule make_schedule(Rank me, const CollectiveDescription& description, Algorithm algorithm, Count segment,
                       Count staging) {
  check(me, description, algorithm, segment);
  const Count block = is_shared(description.kind, algorithm)
                          ? shared_block_count(description, algorithm, segment, staging)
                          : block_count(description.kind, algorithm, description.ranks, segment);
  if (description.kind == CollectiveKind::all_to_all_v) return schedule_of_pairs(me, description, algorithm, block);
  if (has_part_counts(description.kind)) return schedule_of_parts(me, description, algorithm, block);
  return schedule_of_equal_parts(me, description, algorithm, block);
}

}  // namespace lockstep::collectives
