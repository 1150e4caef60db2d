// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/cluster_cost.hpp"

#include <algorithm>

#include "collectives/choice/cost.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

Rates rates_of(const LinkCost& link, double gamma) {
  return {.alpha_seconds = link.alpha_seconds,
          .beta_seconds_per_byte = link.beta_seconds_per_byte,
          .gamma_seconds_per_byte = gamma};
}

double message(const LinkCost& link, double bytes) { return link.alpha_seconds + bytes * link.beta_seconds_per_byte; }

bool is_power_of_two(int number) { return floor_power_of_two(number) == number; }

/// The link between partners at `distance`. Blocks of a power of two ranks stay together only where nodes have one.
const LinkCost& link_at(int distance, const EqualNodes& cluster, const CostModel& model) {
  const bool inside =
      cluster.nodes == 1 || (is_power_of_two(cluster.ranks()) && is_power_of_two(cluster.ranks_per_node) &&
                             distance < cluster.ranks_per_node);
  return inside ? model.local : model.remote;
}

/// Ranks above a power of two hand in their contribution and are handed the result.
double folding(const EqualNodes& cluster, double bytes, const CostModel& model) {
  if (is_power_of_two(cluster.ranks())) return 0;
  const bool inside = cluster.nodes == 1 || cluster.ranks_per_node % 2 == 0;
  return 2 * message(inside ? model.local : model.remote, bytes) + bytes * model.gamma_seconds_per_byte;
}

double halving_doubling(const EqualNodes& cluster, double bytes, const CostModel& model) {
  double seconds = folding(cluster, bytes, model);
  double held = bytes;
  for (int distance = 1; distance < floor_power_of_two(cluster.ranks()); distance *= 2) {
    held /= 2;
    seconds += 2 * message(link_at(distance, cluster, model), held) + held * model.gamma_seconds_per_byte;
  }
  return seconds;
}

double recursive_doubling(const EqualNodes& cluster, double bytes, const CostModel& model) {
  double seconds = folding(cluster, bytes, model);
  for (int distance = 1; distance < floor_power_of_two(cluster.ranks()); distance *= 2)
    seconds += message(link_at(distance, cluster, model), bytes) + bytes * model.gamma_seconds_per_byte;
  return seconds;
}

}  // namespace

double flat_all_reduce_seconds(Algorithm algorithm, const EqualNodes& cluster, Bytes buffer, const CostModel& model) {
  const auto bytes = static_cast<double>(buffer.value);
  if (algorithm == Algorithm::halving_doubling) return halving_doubling(cluster, bytes, model);
  if (algorithm == Algorithm::recursive_doubling) return recursive_doubling(cluster, bytes, model);
  const LinkCost& slowest = cluster.nodes == 1 ? model.local : model.remote;
  return all_reduce_seconds(algorithm, cluster.ranks(), buffer, rates_of(slowest, model.gamma_seconds_per_byte));
}

double hierarchical_all_reduce_seconds(Algorithm across, const EqualNodes& cluster, Bytes buffer,
                                       const CostModel& model) {
  const int ranks = cluster.ranks_per_node;
  const Bytes slice{(buffer.value + ranks - 1) / ranks};
  const double gamma = model.gamma_seconds_per_byte;
  return shared_memory_all_reduce_seconds(ranks, buffer, rates_of(model.local, gamma)) +
         all_reduce_seconds(across, cluster.nodes, slice, rates_of(model.remote, gamma));
}

}  // namespace lockstep::collectives
