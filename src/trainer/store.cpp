// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/store.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "lockstep/comm/communicator.hpp"
#include "trainer/host_view.hpp"
#include "trainer/shard_statistics.hpp"

namespace lockstep::trainer {
namespace {

std::int64_t total_of(std::span<const Count> counts) {
  std::int64_t total = 0;
  for (const Count count : counts) total += count.value;
  return total;
}

}  // namespace

/// Copies between memory of the host and of the device.
void Store::overwrite(const Buffer& to, const Buffer& from) const {
  const ops::ComputeDevice& device = model_->device();
  device.copy(to.data, from.data, to.bytes(), device.queue());
  device.wait(device.queue());
}

Store::Store(ProcessGroup& group, const nn::Model& model, DataParallel& data_parallel, const TrainerOptions& options)
    : group_(&group),
      model_(&model),
      data_parallel_(&data_parallel),
      rule_(options.optimizer.rule),
      is_sharded_(options.zero),
      has_averages_(options.step.ema > 0),
      statistics_are_equal_(options.sync_batch_norm),
      has_shards_(options.step.shards > 0),
      shards_(has_shards_ ? options.step.shards : group.size()),
      counts_(static_cast<std::size_t>(group.size())) {
  allocate_statistics();
  const Bytes own{total(owned()).value * size_of(model.dtype())};
  for (std::size_t i = 0; i < state_names().size(); ++i) optimizer_state_.push_back(group.allocate(own));
  averages_ = model.device().allocate(has_averages_ ? own : Bytes{});
}

nn::Model::Memory Store::memory() const {
  return {.parameters = values(),
          .gradients = data_parallel_->gradient_places(),
          .state = statistics(),
          .optimizer_state = optimizer_state(),
          .averages = averages(),
          .owned = is_sharded_ ? std::optional(owned()) : std::nullopt,
          .summed = is_sharded_ && !has_shards_ ? std::optional(data_parallel_->summed()) : std::nullopt,
          .buckets = data_parallel_->buckets(),
          .gathered_averages = data_parallel_->gradients()};
}

void Store::start_averages() {
  if (has_averages_) take_own(values(), averages());
}

std::vector<Buffer> Store::optimizer_state() const {
  std::vector<Buffer> buffers;
  for (const Allocation& state : optimizer_state_) buffers.push_back(state.as(model_->dtype()));
  return buffers;
}

Bytes Store::optimizer_bytes() const {
  Bytes sum = averages_.bytes();
  for (const Allocation& state : optimizer_state_) sum.value += state.bytes().value;
  return sum;
}

Buffer Store::statistics(std::int64_t shard) const {
  const Count count = model_->state().count();
  return slice(statistics(), {shard * count.value}, count);
}

void Store::allocate_statistics() {
  const std::int64_t shards = own_shards().count;
  statistics_ = {};  // frees the old memory before the new one is allocated
  statistics_ = model_->device().allocate({shards * model_->state().count().value * size_of(model_->dtype())});
  samples_seen_.assign(static_cast<std::size_t>(shards), 0);
}

void Store::move_shards(const LeafShares& shards) {
  AllStatistics all = gather_statistics();
  shards_ = shards;
  allocate_statistics();
  take_statistics(all);
}

void Store::count_samples(Count samples, std::vector<std::int64_t>& seen) {
  const auto shards = std::ssize(seen);
  for (std::int64_t shard = 0; shard < shards; ++shard)
    seen[static_cast<std::size_t>(shard)] += share_of(samples.value, shard, shards).count;
}

void Store::count_samples(Count samples) { count_samples(samples, samples_seen_); }

void Store::average_statistics() {
  if (statistics_are_equal_) return;
  const HostView view(model_->device(), statistics());
  if (has_shards_) {
    average_over_shards(view.buffer(), samples_seen_, shards_, group_->control());
  } else {
    average_over_ranks(view.buffer(), samples_seen_.front(), group_->control());
  }
  view.write_back();
  std::fill(samples_seen_.begin(), samples_seen_.end(), std::int64_t{0});
  if (!remembers_) return;
  gathered_ = remembered_.copy();
  const Count count = model_->state().count();
  for (std::size_t part = 0; part < gathered_.samples.size(); ++part)
    overwrite(slice(gathered_.parts, {static_cast<std::int64_t>(part) * count.value}, count), statistics(0));
  std::fill(gathered_.samples.begin(), gathered_.samples.end(), std::int64_t{0});
  has_gathered_ = true;
}

std::span<const Count> Store::times_shards(std::int64_t each) {
  for (std::size_t rank = 0; rank < counts_.size(); ++rank)
    counts_[rank].value = each * shards_.of(static_cast<int>(rank), group_->size()).count;
  return counts_;
}

Store::AllStatistics Store::gather_statistics() {
  AllStatistics all;
  gather_statistics(all, samples_seen_);
  return all;
}

void Store::gather_statistics(AllStatistics& all, std::span<std::int64_t> samples) {
  const std::int64_t parts = statistics_are_equal_ ? 1 : total_of(times_shards(1));
  all.samples.assign(static_cast<std::size_t>(parts), 0);
  all.memory.resize(static_cast<std::size_t>(parts * statistics(0).bytes().value));
  all.parts = {all.memory.data(), {parts * model_->state().count().value}, model_->dtype()};
  if (statistics_are_equal_) return overwrite(all.parts, statistics(0));
  group_->control()
      .all_gather_v(samples, std::span(all.samples), times_shards(1), Queue::host(), "samples seen")
      .wait();
  group_->control()
      .all_gather_v(HostView(model_->device(), statistics()).buffer(), all.parts,
                    times_shards(model_->state().count().value), Queue::host(), "running statistics")
      .wait();
}

void Store::remember_statistics() {
  remembered_ = gather_statistics();
  remembers_ = true;
}

void Store::gather_in_step(Count samples) {
  if (!remembers_ || model_->state().count().value == 0) return;
  seen_in_step_ = samples_seen_;
  count_samples(samples, seen_in_step_);
  gather_statistics(gathered_, seen_in_step_);
  has_gathered_ = true;
}

void Store::keep_gathered() {
  if (std::exchange(has_gathered_, false)) std::swap(remembered_, gathered_);
}

void Store::take_statistics(AllStatistics& all) {
  const bool same_parts = !statistics_are_equal_ && std::ssize(all.samples) == total_of(times_shards(1));
  if (!same_parts) average_parts(all.parts, all.samples);
  const Count count = model_->state().count();
  const Share own = own_shards();
  for (std::int64_t shard = 0; shard < own.count; ++shard) {
    const std::int64_t part = same_parts ? own.first + shard : 0;
    overwrite(statistics(shard), slice(all.parts, {part * count.value}, count));
    samples_seen_[static_cast<std::size_t>(shard)] = same_parts ? all.samples[static_cast<std::size_t>(part)] : 0;
  }
}

void Store::assemble(const Buffer& own, const Buffer& whole) {
  Count before;
  for (const LayoutPart& part : owned()) {
    overwrite(slice(whole, part.offset, part.count), slice(own, before, part.count));
    before.value += part.count.value;
  }
  data_parallel_->gather(whole);
}

void Store::take_own(const Buffer& whole, const Buffer& own) const {
  Count before;
  for (const LayoutPart& part : owned()) {
    overwrite(slice(own, before, part.count), slice(whole, part.offset, part.count));
    before.value += part.count.value;
  }
}

void Store::gather_averages() {
  if (is_sharded_ && has_averages_) assemble(averages(), data_parallel_->gradients());
}

}  // namespace lockstep::trainer
