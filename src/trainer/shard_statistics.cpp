// SPDX-License-Identifier: Apache-2.0
#include "trainer/shard_statistics.hpp"

#include <cstddef>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "kernels/reduce.hpp"
#include "nn/graph/fill.hpp"

namespace lockstep::trainer {

void overwrite(const Buffer& to, const Buffer& from) {
  if (to.count.value > 0) std::memmove(to.data, from.data, static_cast<std::size_t>(to.bytes().value));
}

namespace {

std::int64_t sum_over_ranks(std::int64_t number, Communicator& communicator) {
  communicator.all_reduce(std::span(&number, 1), std::span(&number, 1), ReduceOp::sum, Queue::host(), "samples").wait();
  return number;
}

}  // namespace

void average_over_ranks(const Buffer& state, std::int64_t samples, Communicator& communicator) {
  if (state.count.value == 0) return;
  const std::int64_t total = sum_over_ranks(samples, communicator);
  if (total == 0) return;
  nn::scale(state, static_cast<double>(samples) / static_cast<double>(total));
  communicator.all_reduce(state, state, ReduceOp::sum, Queue::host(), "statistics").wait();
}

void average_over_shards(const Buffer& states, std::span<const std::int64_t> samples, const LeafShares& shards,
                         Communicator& communicator) {
  const Share own = shards.of(communicator.rank().value, communicator.size());
  const std::int64_t total =
      sum_over_ranks(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}), communicator);
  const Count count{states.count.value / own.count};
  if (total == 0 || count.value == 0) return;
  const auto state = [&](std::size_t shard) {
    return slice(states, {static_cast<std::int64_t>(shard) * count.value}, count);
  };
  std::vector<Buffer> sums;
  for (std::size_t shard = 0; shard < samples.size(); ++shard) {
    sums.push_back(state(shard));
    nn::scale(sums.back(), static_cast<double>(samples[shard]) / static_cast<double>(total));
    while (std::ssize(sums) >
           count_tree_nodes(shards.total(), Share{own.first, static_cast<std::int64_t>(shard) + 1})) {
      const Buffer upper = sums.back();
      sums.pop_back();
      const Buffer& lower = sums.back();
      kernels::reduce(lower.data, lower.data, upper.data, count, lower.dtype, ReduceOp::sum);
    }
  }
  for (std::size_t sum = 1; sum < sums.size(); ++sum) overwrite(state(sum), sums[sum]);
  communicator.all_reduce(state(0), state(0), ReduceOp::sum, Leaves{shards, count}, Queue::host(), "statistics").wait();
  for (std::size_t shard = 1; shard < samples.size(); ++shard) overwrite(state(shard), state(0));
}

void average_parts(const Buffer& parts, std::span<const std::int64_t> samples) {
  const std::int64_t total = std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
  const Count count{parts.count.value / std::ssize(samples)};
  if (total == 0 || count.value == 0) return;
  for (std::int64_t part = 0; part < std::ssize(samples); ++part) {
    const Buffer its = slice(parts, {part * count.value}, count);
    nn::scale(its, static_cast<double>(samples[static_cast<std::size_t>(part)]) / static_cast<double>(total));
    if (part > 0) kernels::reduce(parts.data, parts.data, its.data, count, parts.dtype, ReduceOp::sum);
  }
}

}  // namespace lockstep::trainer
