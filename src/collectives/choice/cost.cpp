// SPDX-License-Identifier: Apache-2.0
#include "collectives/choice/cost.hpp"

#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {
namespace {

/// α·messages + β·moved + γ·added, the last two in buffers of `n`.
double price(const Rates& rates, Bytes n, double messages, double moved, double added) {
  const auto bytes = static_cast<double>(n.value);
  return messages * rates.alpha_seconds + moved * bytes * rates.beta_seconds_per_byte +
         added * bytes * rates.gamma_seconds_per_byte;
}

/// Ranks above a power of two hand in their contribution and are handed the result.
double folding(int ranks, Bytes n, const Rates& rates) {
  return floor_power_of_two(ranks) < ranks ? price(rates, n, 2, 2, 1) : 0;
}

/// A round in which each of a group's ranks sends `share` of the buffer to each other one, and adds up what it gets if
/// `adds`. Only the last message's time on the wire is waited for.
double group_round(const Rates& rates, Bytes n, int group, double share, bool adds) {
  const double others = group - 1;
  return price(rates, n, others, others * share, adds ? others * share : 0) - (others - 1) * rates.wire_seconds;
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

double halving_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates, int radix) {
  double seconds = folding(ranks, buffer, rates);
  double share = 1;
  for (const int group : radices(floor_power_of_two(ranks), radix)) {
    share /= group;
    seconds += group_round(rates, buffer, group, share, true) + group_round(rates, buffer, group, share, false);
  }
  return seconds;
}

double recursive_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates, int radix) {
  double seconds = folding(ranks, buffer, rates);
  for (const int group : radices(floor_power_of_two(ranks), radix))
    seconds += group_round(rates, buffer, group, 1, true);
  return seconds;
}

double tree_order_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  double block = floor_power_of_two(ranks);
  const double share = (block - 1) / block;
  double seconds = price(rates, buffer, 2 * floor_log2(ranks), 2 * share, share);
  for (int rest = ranks - floor_power_of_two(ranks); rest > 0; rest -= floor_power_of_two(rest)) {
    const double smaller = floor_power_of_two(rest);
    seconds += price(rates, buffer, 2 * block / smaller, 2 / smaller, 1 / block);
    block = smaller;
  }
  return seconds;
}

double all_reduce_seconds(Algorithm algorithm, int ranks, Bytes buffer, const Rates& rates, int radix) {
  switch (algorithm) {
    case Algorithm::ring: return ring_all_reduce_seconds(ranks, buffer, rates);
    case Algorithm::double_tree: return double_tree_all_reduce_seconds(ranks, buffer, rates);
    case Algorithm::halving_doubling: return halving_doubling_all_reduce_seconds(ranks, buffer, rates, radix);
    case Algorithm::recursive_doubling: return recursive_doubling_all_reduce_seconds(ranks, buffer, rates, radix);
    case Algorithm::tree_order: return tree_order_all_reduce_seconds(ranks, buffer, rates);
    default: return shared_memory_all_reduce_seconds(ranks, buffer, rates);
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

double pairwise_all_to_all_seconds(int ranks, Bytes part, const Rates& rates) {
  return price(rates, part, ranks - 1, ranks - 1, 0);
}

double dissemination_barrier_seconds(int ranks, const Rates& rates) {
  return price(rates, {0}, ceil_log2(ranks), 0, 0);
}

}  // namespace lockstep::collectives
