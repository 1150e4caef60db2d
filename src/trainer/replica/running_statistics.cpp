// SPDX-License-Identifier: Apache-2.0
#include "trainer/replica/running_statistics.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>

#include "kernels/reduce.hpp"
#include "nn/graph/fill.hpp"
#include "trainer/replica/host_mirror.hpp"

namespace lockstep::trainer {
namespace {

std::int64_t sum_of(std::span<const std::int64_t> samples) {
  return std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
}

/// Returns the sum over ranks.
std::int64_t sum_over_ranks(std::int64_t number, Communicator& communicator) {
  communicator.all_reduce(std::span(&number, 1), std::span(&number, 1), ReduceOp::sum, Queue::host(), "samples").wait();
  return number;
}

/// Multiplies statistics with their fraction of the samples.
void scale_by_fraction(const Buffer& statistics, std::int64_t samples, std::int64_t total) {
  nn::scale(statistics, static_cast<double>(samples) / static_cast<double>(total));
}

/// Adds to statistics in memory of the host.
void add(const Buffer& sum, const Buffer& operand) {
  kernels::reduce(sum.data, sum.data, operand.data, sum.count, sum.dtype, ReduceOp::sum);
}

/// Copies within memory of the host, where both may be the same.
void copy_on_host(const Buffer& to, const Buffer& from) {
  std::memmove(to.data, from.data, static_cast<std::size_t>(to.bytes().value));
}

}  // namespace

RunningStatistics::RunningStatistics(ProcessGroup& group, const nn::Model& model, const TrainerOptions& options)
    : group_(&group),
      model_(&model),
      are_equal_(options.sync_batch_norm),
      has_shards_(options.step.shards > 0),
      shards_(has_shards_ ? options.step.shards : group.size()),
      counts_(static_cast<std::size_t>(group.size())) {
  allocate();
}

Buffer RunningStatistics::part(std::int64_t index) const { return slice(all(), {index * count().value}, count()); }

void RunningStatistics::start_averages() {
  const Count statistics = model_->state().count();
  if (count() == statistics) return;
  for (std::int64_t i = 0; i < own_shards().count; ++i)
    copy_and_wait(model_->device(), slice(part(i), statistics, statistics), slice(part(i), {0}, statistics));
}

void RunningStatistics::allocate() {
  const std::int64_t shards = own_shards().count;
  memory_ = {};  // frees the old memory before the new one is allocated
  memory_ = model_->device().allocate({shards * count().value * size_of(model_->dtype())});
  samples_seen_.assign(static_cast<std::size_t>(shards), 0);
}

void RunningStatistics::move_shards(const LeafShares& shards) {
  GatheredStatistics gathered = gather();
  shards_ = shards;
  allocate();
  take(gathered);
}

std::span<const Count> RunningStatistics::times_parts(std::int64_t each) {
  for (std::size_t rank = 0; rank < counts_.size(); ++rank)
    counts_[rank].value = each * shards_.of(static_cast<int>(rank), group_->size()).count;
  return counts_;
}

void RunningStatistics::count_samples(Count samples, std::vector<std::int64_t>& seen) {
  const auto shards = std::ssize(seen);
  for (std::int64_t shard = 0; shard < shards; ++shard)
    seen[static_cast<std::size_t>(shard)] += share_of(samples.value, shard, shards).count;
}

void RunningStatistics::average() {
  if (are_equal_) return;
  const HostMirror mirror(model_->device(), all());
  has_shards_ ? average_over_shards(mirror.buffer()) : average_over_ranks(mirror.buffer());
  mirror.write_back();
  std::fill(samples_seen_.begin(), samples_seen_.end(), std::int64_t{0});
  if (!memory_of_all_) return;
  GatheredStatistics& next = memory_of_all_->next = memory_of_all_->completed;
  for (std::int64_t i = 0; i < std::ssize(next.samples); ++i)
    copy_and_wait(model_->device(), slice(next.as(model_->dtype()), {i * count().value}, count()), part(0));
  std::fill(next.samples.begin(), next.samples.end(), std::int64_t{0});
  memory_of_all_->has_next = true;
}

void RunningStatistics::average_over_ranks(const Buffer& statistics) {
  if (count().value == 0) return;
  const std::int64_t total = sum_over_ranks(samples_seen_.front(), group_->control());
  if (total == 0) return;
  scale_by_fraction(statistics, samples_seen_.front(), total);
  group_->control().all_reduce(statistics, statistics, ReduceOp::sum, Queue::host(), "statistics").wait();
}

void RunningStatistics::average_over_shards(const Buffer& statistics) {
  const std::int64_t total = sum_over_ranks(sum_of(samples_seen_), group_->control());
  if (total == 0 || count().value == 0) return;
  const Share own = own_shards();
  const auto of = [&](std::size_t shard) {
    return slice(statistics, {static_cast<std::int64_t>(shard) * count().value}, count());
  };
  std::vector<Buffer> sums;
  for (std::size_t shard = 0; shard < samples_seen_.size(); ++shard) {
    sums.push_back(of(shard));
    scale_by_fraction(sums.back(), samples_seen_[shard], total);
    const Share so_far{own.first, static_cast<std::int64_t>(shard) + 1};
    for (; std::ssize(sums) > count_tree_nodes(shards_.total(), so_far); sums.pop_back())
      add(sums[sums.size() - 2], sums.back());
  }
  for (std::size_t sum = 1; sum < sums.size(); ++sum) copy_on_host(of(sum), sums[sum]);
  group_->control()
      .all_reduce(of(0), of(0), ReduceOp::sum, Leaves{shards_, count()}, Queue::host(), "statistics")
      .wait();
  for (std::size_t shard = 1; shard < samples_seen_.size(); ++shard) copy_on_host(of(shard), of(0));
}

GatheredStatistics RunningStatistics::make_gathered(std::int64_t parts) const {
  GatheredStatistics gathered;
  gathered.memory.resize(static_cast<std::size_t>(parts * part(0).bytes().value));
  gathered.samples.resize(static_cast<std::size_t>(parts));
  return gathered;
}

GatheredStatistics RunningStatistics::gather() {
  GatheredStatistics gathered = make_gathered(gathered_parts());
  gather(gathered, samples_seen_);
  return gathered;
}

void RunningStatistics::gather(GatheredStatistics& gathered, std::span<std::int64_t> samples) {
  const Buffer parts = gathered.as(model_->dtype());
  if (are_equal_) return copy_and_wait(model_->device(), parts, part(0));
  group_->control()
      .all_gather_v(samples, std::span(gathered.samples), times_parts(1), Queue::host(), "samples seen")
      .wait();
  group_->control()
      .all_gather_v(HostMirror(model_->device(), all()).buffer(), parts, times_parts(count().value), Queue::host(),
                    "running statistics")
      .wait();
}

void RunningStatistics::take(GatheredStatistics& gathered) {
  const bool same_parts = !are_equal_ && std::ssize(gathered.samples) == gathered_parts();
  if (!same_parts) average_of(gathered);
  const Share own = own_shards();
  for (std::int64_t shard = 0; shard < own.count; ++shard) {
    const std::int64_t from = same_parts ? own.first + shard : 0;
    copy_and_wait(model_->device(), part(shard), slice(gathered.as(model_->dtype()), {from * count().value}, count()));
    samples_seen_[static_cast<std::size_t>(shard)] = same_parts ? gathered.samples[static_cast<std::size_t>(from)] : 0;
  }
}

Buffer RunningStatistics::average_of(GatheredStatistics& gathered) const {
  const std::int64_t total = sum_of(gathered.samples);
  const Buffer parts = gathered.as(model_->dtype());
  const Buffer average = slice(parts, {0}, count());
  for (std::size_t i = 0; i < gathered.samples.size() && total != 0 && count().value != 0; ++i) {
    const Buffer its = slice(parts, {static_cast<std::int64_t>(i) * count().value}, count());
    scale_by_fraction(its, gathered.samples[i], total);
    if (i > 0) add(average, its);
  }
  return average;
}

void RunningStatistics::remember() {
  memory_of_all_ = {.completed = gather(), .next = make_gathered(gathered_parts())};
}

void RunningStatistics::gather_in_step(Count samples) {
  if (!memory_of_all_ || count().value == 0) return;
  memory_of_all_->samples = samples_seen_;
  count_samples(samples, memory_of_all_->samples);
  gather(memory_of_all_->next, memory_of_all_->samples);
  memory_of_all_->has_next = true;
}

void RunningStatistics::keep_gathered() {
  if (memory_of_all_ && std::exchange(memory_of_all_->has_next, false))
    std::swap(memory_of_all_->completed, memory_of_all_->next);
}

}  // namespace lockstep::trainer
