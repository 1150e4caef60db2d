// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/cost.hpp"

#include <algorithm>

#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

/// Returns α·messages + β·moved + γ·added, the last two in buffers of `n`.
double price(const Rates& rates, Bytes n, double messages, double moved, double added) {
  const auto bytes = static_cast<double>(n.value);
  return messages * rates.alpha_seconds + moved * bytes * rates.beta_seconds_per_byte +
         added * bytes * rates.gamma_seconds_per_byte;
}

/// Returns the cost of folding: ranks above a power of two send their contribution and receive the result.
double folding(int ranks, Bytes n, const Links& links) {
  return floor_power_of_two(ranks) < ranks ? price(links.folding, n, 2, 2, 1) : 0;
}

/// Returns how long messages of `share` of the buffer to `others` ranks occupy the port, including the additions if
/// `adds`.
double busy(const Rates& rates, Bytes n, double others, double share, bool adds) {
  return price(rates, n, others, others * share, adds ? others * share : 0) - others * rates.wire_seconds;
}

/// Returns the cost of a round in which each rank of a group, whose ranks are `distance` apart, sends `share` of the
/// buffer to every other one, the near ones first. Only the last message's time on the wire adds to the cost.
double group_round(const Links& links, Bytes n, int distance, int group, double share, bool adds) {
  const int near = std::clamp(links.near_ranks / distance, 1, group);
  Rates far = links.far;
  far.beta_seconds_per_byte *= std::min(links.sharing, distance * group / 2);
  const Rates& last = near < group ? far : links.near;
  return busy(links.near, n, near - 1, share, adds) + busy(far, n, group - near, share, adds) + last.wire_seconds;
}

}  // namespace

double ring_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double share = (ranks - 1.0) / ranks;
  return price(rates, buffer, 2 * (ranks - 1.0), 2 * share, share);
}

double double_tree_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double height = ceil_log2(ranks);
  return price(rates, buffer, 4 * height, 2 * height, height);
}

double halving_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix) {
  double seconds = folding(ranks, buffer, links);
  int distance = 1;
  for (const int group : radices(floor_power_of_two(ranks), radix)) {
    const double share = 1.0 / distance / group;
    seconds += group_round(links, buffer, distance, group, share, true);
    seconds += group_round(links, buffer, distance, group, share, false);
    distance *= group;
  }
  return seconds;
}

double recursive_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix) {
  double seconds = folding(ranks, buffer, links);
  int distance = 1;
  for (const int group : radices(floor_power_of_two(ranks), radix)) {
    seconds += group_round(links, buffer, distance, group, 1, true);
    distance *= group;
  }
  return seconds;
}

double tree_order_all_reduce_seconds(int ranks, Bytes buffer, const Links& links) {
  double block = floor_power_of_two(ranks);
  double seconds = halving_doubling_all_reduce_seconds(floor_power_of_two(ranks), buffer, links);
  for (int rest = ranks - floor_power_of_two(ranks); rest > 0; rest -= floor_power_of_two(rest)) {
    const double smaller = floor_power_of_two(rest);
    seconds += price(links.far, buffer, 2 * block / smaller, 2 / smaller, 1 / block);
    block = smaller;
  }
  return seconds;
}

double all_reduce_seconds(Algorithm algorithm, int ranks, Bytes buffer, const Links& links, int radix) {
  switch (algorithm) {
    case Algorithm::ring: return ring_all_reduce_seconds(ranks, buffer, links.far);
    case Algorithm::double_tree: return double_tree_all_reduce_seconds(ranks, buffer, links.far);
    case Algorithm::halving_doubling: return halving_doubling_all_reduce_seconds(ranks, buffer, links, radix);
    case Algorithm::recursive_doubling: return recursive_doubling_all_reduce_seconds(ranks, buffer, links, radix);
    case Algorithm::tree_order: return tree_order_all_reduce_seconds(ranks, buffer, links);
    default: return shared_memory_all_reduce_seconds(ranks, buffer, links.near);
  }
}

double shared_memory_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double share = (ranks - 1.0) / ranks;
  return ranks == 1 ? 0 : price(rates, buffer, 2, 2 * share, share);
}

double pull_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  return ranks == 1 ? 0 : price(rates, buffer, 1, ranks - 1, ranks - 1);
}

double binomial_broadcast_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double rounds = ceil_log2(ranks);
  return price(rates, buffer, rounds, rounds, 0);
}

double ring_all_gather_seconds(int ranks, Bytes part, const Rates& rates) {
  return price(rates, part, ranks - 1, ranks - 1, 0);
}

double ring_reduce_scatter_seconds(int ranks, Bytes part, const Rates& rates) {
  return price(rates, part, ranks - 1, ranks - 1, ranks - 1);
}

double binomial_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double rounds = ceil_log2(ranks);
  return price(rates, buffer, rounds, rounds, rounds);
}

double binomial_gather_seconds(int ranks, Bytes part, const Rates& rates) {
  return price(rates, part, ceil_log2(ranks), ranks - 1, 0);
}

double pairwise_all_to_all_seconds(int ranks, Bytes part, const Rates& rates) {
  return ranks == 1 ? 0 : busy(rates, part, ranks - 1, 1, false) + rates.wire_seconds;
}

double dissemination_barrier_seconds(int ranks, const Rates& rates) {
  return price(rates, {0}, ceil_log2(ranks), 0, 0);
}

}  // namespace lockstep::collectives
