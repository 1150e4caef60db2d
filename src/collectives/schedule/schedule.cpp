// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/schedule.hpp"

#include <algorithm>

#include "collectives/algorithms/leaf_tree.hpp"
#include "collectives/algorithms/node.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

/// Returns whether a rank's staging area has a part for each rank, in the plan of at least one rank.
bool stages_parts(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce_scatter_v ||
         kind == CollectiveKind::all_to_all || kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
}

/// Returns the elements (of the buffer, or of each part) of a block in shared memory.
Count shared_block_count(const CollectiveDescription& d, Algorithm algorithm, Count segment, Count staging) {
  const int inputs = d.leaves.total() > 0 ? most_nodes(shares_of_ranks(d.leaves, d.ranks)) : 1;
  const std::int64_t parts = stages_parts(d.kind) ? d.ranks : inputs;
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
