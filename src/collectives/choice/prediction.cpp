// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/algorithms/by_cache.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/algorithms/operations.hpp"
#include "collectives/choice/selection.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/schedule/blocks.hpp"

namespace lockstep::collectives {
namespace {

/// The predicted time of one block, and how long it occupies the port that sends the largest share of it.
struct BlockPrice {
  double seconds = 0;
  double busy_seconds = 0;
};

/// The links that messages use: in exchanges, where all ranks of a node send at the same time, and in rings and trees,
/// which pass the buffer from rank to rank.
struct Network {
  int ranks = 1;
  Links exchange;
  Rates passing;
  Rates all_at_once;  ///< for operations in which each rank sends to every other one
};

bool is_power_of_two(int number) { return floor_power_of_two(number) == number; }

Rates rates_of(const LinkCost& link, int sharing, double gamma) {
  return {link.alpha_seconds, sharing * link.beta_seconds_per_byte, gamma, link.wire_seconds};
}

/// Returns the network between all ranks.
Network whole_network(const Selection& on) {
  const ShapeSummary& shape = on.shape;
  const double gamma = on.prices.messages.gamma_seconds_per_byte;
  const Rates near = rates_of(on.prices.messages.local, 1, gamma);
  if (shape.nodes == 1) return {shape.ranks, alike(near), near, near};
  const int together = shape.max_ranks_per_node;
  const Rates shared = rates_of(on.prices.messages.remote, together, gamma);
  if (!on.consecutive_nodes) return {shape.ranks, alike(shared), shared, shared};
  const Rates far = rates_of(on.prices.messages.remote, 1, gamma);
  const bool equal = shape.min_ranks_per_node == together;
  const bool fills_nodes = equal && is_power_of_two(together) && is_power_of_two(shape.ranks);
  return {.ranks = shape.ranks,
          .exchange = {.near = near,
                       .far = far,
                       .folding = equal && together % 2 == 0 ? near : far,
                       .near_ranks = fills_nodes ? together : 1,
                       .sharing = together},
          .passing = far,
          .all_at_once = shared};
}

int lane_count(const ShapeSummary& shape) { return shape.min_ranks_per_node; }

/// Returns the network of one lane, which has one rank of each node and shares the link with the other lanes.
Network lane_network(const Selection& on) {
  const CostModel& prices = on.prices.messages;
  const LinkCost& link = on.shape.nodes == 1 ? prices.local : prices.remote;
  const Rates rates = rates_of(link, lane_count(on.shape), prices.gamma_seconds_per_byte);
  return {on.shape.nodes, alike(rates), rates, rates};
}

/// Returns the rates at which messages occupy the sender's port.
Rates occupied(const Rates& rates) {
  return {.alpha_seconds = rates.alpha_seconds - rates.wire_seconds,
          .beta_seconds_per_byte = rates.beta_seconds_per_byte};
}
Network occupied(Network network) {
  network.exchange.near = occupied(network.exchange.near);
  network.exchange.far = occupied(network.exchange.far);
  network.exchange.folding = occupied(network.exchange.folding);
  network.passing = occupied(network.passing);
  network.all_at_once = occupied(network.all_at_once);
  return network;
}

double by_messages(CollectiveKind kind, const Choice& choice, Bytes block, const Network& network) {
  if (kind != CollectiveKind::all_reduce)
    return seconds(row_of(kind).cost(network.ranks), block,
                   is_all_to_all(kind) ? network.all_at_once : network.passing);
  const AllReduceRow& row = row_of(choice.algorithm);
  return row.seconds(network.ranks, block, row.to_neighbors ? alike(network.passing) : network.exchange, choice.radix);
}

/// Returns the predicted time of a block with messages. In most algorithms the port is busy all the time.
BlockPrice message_block(CollectiveKind kind, const Choice& choice, Bytes block, const Network& network) {
  const Network port = occupied(network);
  double busy = by_messages(kind, choice, block, port);
  if (kind == CollectiveKind::all_reduce) {
    const auto [messages, buffers] = row_of(choice.algorithm).port;
    if (messages > 0) busy = std::min(busy, price(port.passing, block, messages, buffers, 0));
  }
  return {by_messages(kind, choice, block, network), busy};
}

/// Evaluates the formulas of node.hpp. An all-reduce uses the faster of its two algorithms.
double by_shared_memory(CollectiveKind kind, int ranks, Bytes bytes, const Rates& rates) {
  if (ranks == 1) return 0;
  if (kind != CollectiveKind::all_reduce) return seconds(row_of(kind).shared_cost(ranks), bytes, rates);
  return std::min(shared_memory_all_reduce_seconds(ranks, bytes, rates), pull_all_reduce_seconds(ranks, bytes, rates));
}

/// Evaluates the formulas of by_cache.hpp, as `by_shared_memory` does.
double by_cache(Bytes bytes, const Selection& on) {
  const Rates& rates = on.prices.shared_memory;
  return std::min(pull_by_cache_seconds(on.shape.ranks, on.ranks_per_cache, bytes, rates),
                  slices_by_cache_seconds(on.shape.ranks, on.ranks_per_cache, bytes, rates));
}

BlockPrice hierarchical_block(CollectiveKind kind, const Choice& choice, Bytes block, const Selection& on) {
  const ShapeSummary& shape = on.shape;
  const int in_each = shape.max_ranks_per_node;
  const double in_node = adds_by_cache(on)
                             ? slices_by_cache_seconds(in_each, on.ranks_per_cache, block, on.prices.shared_memory)
                             : shared_memory_all_reduce_seconds(in_each, block, on.prices.shared_memory);
  const Bytes slice{(block.value + lane_count(shape) - 1) / lane_count(shape)};
  const BlockPrice across = message_block(kind, choice, slice, lane_network(on));
  return {in_node + across.seconds, std::max(in_node, across.busy_seconds)};
}

}  // namespace

double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const Selection& on) {
  const ShapeSummary& shape = on.shape;
  const bool hierarchical = is_shared(kind, choice.algorithm);
  if (hierarchical && choice.algorithm == Algorithm::shared_memory)
    return by_shared_memory(kind, shape.ranks, bytes, on.prices.shared_memory);
  if (choice.algorithm == Algorithm::hierarchical_tree_order && shape.nodes == 1 && adds_by_cache(on))
    return by_cache(bytes, on);
  const Count longest = block_count(kind, across_nodes(choice.algorithm), hierarchical ? shape.nodes : shape.ranks,
                                    {choice.segment.value});
  const Bytes block{std::min(bytes.value, longest.value)};
  const BlockPrice price = hierarchical ? hierarchical_block(kind, choice, block, on)
                                        : message_block(kind, choice, block, whole_network(on));
  if (bytes <= block || kind == CollectiveKind::barrier) return price.seconds;
  const double followers = static_cast<double>(bytes.value) / static_cast<double>(block.value) - 1;
  return price.seconds + followers * std::max(price.seconds / choice.blocks_in_flight, price.busy_seconds);
}

}  // namespace lockstep::collectives
