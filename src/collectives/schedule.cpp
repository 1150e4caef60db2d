#include "lockstep/collectives/schedule.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/collectives/binomial.hpp"
#include "lockstep/collectives/dissemination.hpp"
#include "lockstep/collectives/double_tree.hpp"
#include "lockstep/collectives/halving_doubling.hpp"
#include "lockstep/collectives/recursive_doubling.hpp"
#include "lockstep/collectives/ring.hpp"

namespace lockstep::collectives {
namespace {

Plan all_reduce(Rank me, int ranks, Count count, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring: return ring_all_reduce(me, ranks, count);
    case Algorithm::double_tree: return double_tree_all_reduce(me, ranks, count);
    case Algorithm::halving_doubling: return halving_doubling_all_reduce(me, ranks, count);
    case Algorithm::recursive_doubling: return recursive_doubling_all_reduce(me, ranks, count);
  }
  return {};
}

void require(bool condition, const CollectiveDescription& d, const std::string& what) {
  if (!condition) throw Error(ErrorCode::invalid_argument, what, {.operation = std::string(name(d.operation))});
}

void check(Rank me, const CollectiveDescription& d, Count segment) {
  const auto is_rank = [&](Rank r) { return 0 <= r.value && r.value < d.ranks; };
  const std::string range = "; it must lie between 0 and " + std::to_string(d.ranks - 1);
  require(d.ranks >= 1, d, "the number of ranks is " + std::to_string(d.ranks) + "; it must be at least 1");
  require(is_rank(me), d, "the rank is " + std::to_string(me.value) + range);
  require(d.operation != Operation::broadcast || is_rank(d.root), d,
          "the root is " + std::to_string(d.root.value) + range);
  require(d.count.value >= 0, d, "the count is " + std::to_string(d.count.value) + "; it must not be negative");
  require(d.operation != Operation::barrier || d.count.value == 0, d,
          "the count is " + std::to_string(d.count.value) + "; a barrier has no elements");
  require(segment.value >= 1, d, "the segment has " + std::to_string(segment.value) + " elements; give at least 1");
  require(d.own.leaves >= 0, d,
          "the number of leaves is " + std::to_string(d.own.leaves) + "; it must not be negative");
  require(d.operation != Operation::all_gather || d.own.leaves == 1, d,
          "a rank brings one leaf to an all_gather, not " + std::to_string(d.own.leaves));
}

}  // namespace

Schedule::Schedule(Blocks blocks, std::int64_t size, std::int64_t part_stride, Plan full, Plan tail)
    : blocks_(blocks),
      size_(size),
      full_count_(size > 0 ? blocks[0].count : 0),
      part_stride_(part_stride),
      full_(std::move(full)),
      tail_(std::move(tail)) {}

BlockView Schedule::view(std::int64_t index) const {
  const Block b = block(index);
  return {std::max<std::int64_t>(b.count, 1), part_stride_, b.offset};
}

Plan make_plan(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  switch (d.operation) {
    case Operation::all_reduce:
      return contribute(all_reduce(me, d.ranks, d.count, algorithm), d.own, {Memory::output, 0, d.count.value});
    case Operation::broadcast: return binomial_broadcast(me, d.ranks, d.count, d.root);
    case Operation::all_gather:
      return contribute(ring_all_gather(me, d.ranks, d.count), d.own,
                        {Memory::output, me.value * d.count.value, d.count.value});
    case Operation::reduce_scatter: return ring_reduce_scatter(me, d.ranks, d.count, d.own);
    case Operation::barrier: return dissemination_barrier(me, d.ranks);
  }
  return {};
}

Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element) {
  switch (algorithm) {
    case Algorithm::ring: return ring_all_reduce_order(expressions, contributions, count, element);
    case Algorithm::double_tree: return double_tree_all_reduce_order(expressions, contributions, count, element);
    case Algorithm::halving_doubling:
      return halving_doubling_all_reduce_order(expressions, contributions, count, element);
    case Algorithm::recursive_doubling:
      return recursive_doubling_all_reduce_order(expressions, contributions, count, element);
  }
  return Expressions::neutral();
}

Schedule make_schedule(Rank me, const CollectiveDescription& description, Algorithm algorithm, Count segment) {
  check(me, description, segment);
  const std::int64_t total = description.count.value;
  const auto plan_of = [&](Count count) {
    CollectiveDescription block = description;
    block.count = count;
    return make_plan(me, block, algorithm);
  };
  const Blocks blocks(description.count, block_count(description.operation, algorithm, description.ranks, segment));
  const std::int64_t size = description.operation == Operation::barrier ? 1 : blocks.size();
  const std::int64_t full = size > 0 ? blocks[0].count : 0;
  const std::int64_t last = size > 0 ? blocks[size - 1].count : 0;
  return {blocks, size, total, plan_of({full}), last < full ? plan_of({last}) : Plan{}};
}

}  // namespace lockstep::collectives
