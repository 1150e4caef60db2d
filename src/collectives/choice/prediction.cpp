// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/prediction.hpp"

#include <algorithm>

#include "collectives/algorithms/blocks.hpp"
#include "collectives/choice/cost.hpp"

namespace lockstep::collectives {
namespace {

/// One block's: until it is done, and for how long it keeps the port busy that sends most of it.
struct BlockPrice {
  double seconds = 0;
  double busy_seconds = 0;
};

double by_messages(CollectiveKind kind, const Choice& choice, int ranks, Bytes block, const Rates& rates) {
  switch (kind) {
    case CollectiveKind::reduce_then:
    case CollectiveKind::all_reduce:
      return all_reduce_seconds(across_nodes(choice.algorithm), ranks, block, rates, choice.radix);
    case CollectiveKind::broadcast: return binomial_broadcast_seconds(ranks, block, rates);
    case CollectiveKind::all_gather: return ring_all_gather_seconds(ranks, block, rates);
    case CollectiveKind::reduce_scatter: return ring_reduce_scatter_seconds(ranks, block, rates);
    case CollectiveKind::reduce: return binomial_reduce_seconds(ranks, block, rates);
    case CollectiveKind::all_to_all: return pairwise_all_to_all_seconds(ranks, block, rates);
    case CollectiveKind::barrier: return dissemination_barrier_seconds(ranks, rates);
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return 0;
}

/// In most algorithms the port is busy all the time; the trees' levels take turns, and no rank sends more than two
/// buffers.
BlockPrice message_block(CollectiveKind kind, const Choice& choice, int ranks, Bytes block, const Rates& rates) {
  const Rates only_bytes{.beta_seconds_per_byte = rates.beta_seconds_per_byte};
  double busy = by_messages(kind, choice, ranks, block, only_bytes);
  if (is_all_reduce(kind) && across_nodes(choice.algorithm) == Algorithm::double_tree) {
    busy = std::min(busy, 2 * static_cast<double>(block.value) * rates.beta_seconds_per_byte);
  }
  return {by_messages(kind, choice, ranks, block, rates), busy};
}

/// The formulas of node.hpp. An all-reduce is whichever of its two ways is faster.
double by_shared_memory(CollectiveKind kind, int ranks, Bytes bytes, const Rates& rates) {
  if (ranks == 1) return 0;
  const auto n = static_cast<double>(bytes.value);
  const double twice = 2 * rates.alpha_seconds;
  switch (kind) {
    case CollectiveKind::reduce_then:
    case CollectiveKind::all_reduce:
      return std::min(shared_memory_all_reduce_seconds(ranks, bytes, rates),
                      pull_all_reduce_seconds(ranks, bytes, rates));
    case CollectiveKind::broadcast: return twice + n * rates.beta_seconds_per_byte;
    case CollectiveKind::reduce:
      return twice + n * rates.beta_seconds_per_byte + (ranks - 1) * n / ranks * rates.gamma_seconds_per_byte;
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_gather: return twice + (ranks - 1) * n * rates.beta_seconds_per_byte;
    case CollectiveKind::reduce_scatter:
      return twice + (ranks - 1) * n * (rates.beta_seconds_per_byte + rates.gamma_seconds_per_byte);
    case CollectiveKind::barrier: return rates.alpha_seconds;
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return 0;
}

BlockPrice hierarchical_block(const Choice& choice, const ShapeSummary& shape, Bytes block, const Rates& shared,
                              const Rates& remote) {
  const int lanes = shape.min_ranks_per_node;
  const double in_node =
      shape.max_ranks_per_node == 1 ? 0 : shared_memory_all_reduce_seconds(shape.max_ranks_per_node, block, shared);
  const BlockPrice across =
      message_block(CollectiveKind::all_reduce, choice, shape.nodes, {(block.value + lanes - 1) / lanes}, remote);
  return {in_node + across.seconds, std::max(in_node, across.busy_seconds)};
}

}  // namespace

double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const ShapeSummary& shape,
                         const Prices& prices) {
  if (choice.algorithm == Algorithm::shared_memory) {
    return by_shared_memory(kind, shape.ranks, bytes, prices.shared_memory);
  }
  const LinkCost& link = shape.nodes > 1 ? prices.messages.remote : prices.messages.local;
  const Rates rates{link.alpha_seconds, link.beta_seconds_per_byte, prices.messages.gamma_seconds_per_byte,
                    link.wire_seconds};
  const bool hierarchical = is_all_reduce(kind) && uses_shared_memory(choice.algorithm);
  const Count longest = block_count(kind, across_nodes(choice.algorithm), hierarchical ? shape.nodes : shape.ranks,
                                    {choice.segment.value});
  const Bytes block{std::min(bytes.value, longest.value)};
  const BlockPrice price = hierarchical ? hierarchical_block(choice, shape, block, prices.shared_memory, rates)
                                        : message_block(kind, choice, shape.ranks, block, rates);
  if (bytes <= block || kind == CollectiveKind::barrier) return price.seconds;
  const double followers = static_cast<double>(bytes.value) / static_cast<double>(block.value) - 1;
  return price.seconds + followers * std::max(price.seconds / choice.blocks_in_flight, price.busy_seconds);
}

}  // namespace lockstep::collectives
