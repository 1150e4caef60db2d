// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/algorithms/blocks.hpp"
#include "collectives/choice/cost.hpp"
#include "collectives/choice/selection.hpp"
#include "collectives/plan/partition.hpp"

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

int lanes(const ShapeSummary& shape) { return shape.min_ranks_per_node; }

/// Returns the network of one lane, which has one rank of each node and shares the link with the other lanes.
Network lane_network(const Selection& on) {
  const CostModel& prices = on.prices.messages;
  const LinkCost& link = on.shape.nodes == 1 ? prices.local : prices.remote;
  const Rates rates = rates_of(link, lanes(on.shape), prices.gamma_seconds_per_byte);
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

bool passes_on(Algorithm across) { return across == Algorithm::ring || across == Algorithm::double_tree; }

double by_messages(CollectiveKind kind, const Choice& choice, Bytes block, const Network& network) {
  const auto& [ranks, exchange, passing, all_at_once] = network;
  const Algorithm across = across_nodes(choice.algorithm);
  switch (kind) {
    case CollectiveKind::all_reduce:
      return all_reduce_seconds(across, ranks, block, passes_on(across) ? alike(passing) : exchange, choice.radix);
    case CollectiveKind::broadcast: return binomial_broadcast_seconds(ranks, block, passing);
    case CollectiveKind::all_gather:
    case CollectiveKind::all_gather_v: return ring_all_gather_seconds(ranks, block, passing);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::reduce_scatter_v: return ring_reduce_scatter_seconds(ranks, block, passing);
    case CollectiveKind::reduce: return binomial_reduce_seconds(ranks, block, passing);
    case CollectiveKind::gather:
    case CollectiveKind::scatter: return binomial_gather_seconds(ranks, block, passing);
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_v: return pairwise_all_to_all_seconds(ranks, block, all_at_once);
    case CollectiveKind::barrier: return dissemination_barrier_seconds(ranks, passing);
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return 0;
}

/// Returns the predicted time of a block with messages. In most algorithms the port is busy all the time. In the double
/// tree the levels take turns, and no rank sends more than two buffers, in four messages.
BlockPrice message_block(CollectiveKind kind, const Choice& choice, Bytes block, const Network& network) {
  const Network port = occupied(network);
  double busy = by_messages(kind, choice, block, port);
  if (kind == CollectiveKind::all_reduce && across_nodes(choice.algorithm) == Algorithm::double_tree) {
    const auto bytes = static_cast<double>(block.value);
    busy = std::min(busy, 4 * port.passing.alpha_seconds + 2 * bytes * port.passing.beta_seconds_per_byte);
  }
  return {by_messages(kind, choice, block, network), busy};
}

/// Evaluates the formulas of node.hpp. An all-reduce uses the faster of its two algorithms.
double by_shared_memory(CollectiveKind kind, int ranks, Bytes bytes, const Rates& rates) {
  if (ranks == 1) return 0;
  const auto n = static_cast<double>(bytes.value);
  const double twice = 2 * rates.alpha_seconds;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return std::min(shared_memory_all_reduce_seconds(ranks, bytes, rates),
                      pull_all_reduce_seconds(ranks, bytes, rates));
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::broadcast: return twice + n * rates.beta_seconds_per_byte;
    case CollectiveKind::reduce:
      return twice + n * rates.beta_seconds_per_byte + (ranks - 1) * n / ranks * rates.gamma_seconds_per_byte;
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_gather_v: return twice + (ranks - 1) * n * rates.beta_seconds_per_byte;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::reduce_scatter_v:
      return twice + (ranks - 1) * n * (rates.beta_seconds_per_byte + rates.gamma_seconds_per_byte);
    case CollectiveKind::barrier: return rates.alpha_seconds;
    case CollectiveKind::all_to_all_v:  // uses messages
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return 0;
}

BlockPrice hierarchical_block(CollectiveKind kind, const Choice& choice, Bytes block, const Selection& on) {
  const ShapeSummary& shape = on.shape;
  const double in_node = shared_memory_all_reduce_seconds(shape.max_ranks_per_node, block, on.prices.shared_memory);
  const Bytes slice{(block.value + lanes(shape) - 1) / lanes(shape)};
  const BlockPrice across = message_block(kind, choice, slice, lane_network(on));
  return {in_node + across.seconds, std::max(in_node, across.busy_seconds)};
}

}  // namespace

double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const Selection& on) {
  const ShapeSummary& shape = on.shape;
  if (choice.algorithm == Algorithm::shared_memory && kind != CollectiveKind::all_to_all_v) {
    return by_shared_memory(kind, shape.ranks, bytes, on.prices.shared_memory);
  }
  const bool hierarchical = kind == CollectiveKind::all_reduce && uses_shared_memory(choice.algorithm);
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
