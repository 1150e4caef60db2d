// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "data/random.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

void check(const SamplerOptions& options) {
  if (options.samples.value < 1)
    throw Error(ErrorCode::invalid_argument,
                "a sampler needs at least one sample, not " + std::to_string(options.samples.value));
  if (options.batch.value < 1)
    throw Error(ErrorCode::invalid_argument,
                "the batch must have at least one sample, not " + std::to_string(options.batch.value));
  if (options.drop_last && options.batch.value > options.samples.value)
    throw Error(ErrorCode::invalid_argument, "no batch of " + std::to_string(options.batch.value) +
                                                 " is left if the last, smaller one of " +
                                                 std::to_string(options.samples.value) + " samples is left out");
  if (options.rank.value < 0 || options.rank.value >= options.ranks)
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(options.rank.value) + " is not one of " +
                                                 std::to_string(options.ranks) + " ranks");
  if (options.together.value < 1)
    throw Error(ErrorCode::invalid_argument,
                "at least one sample stays together, not " + std::to_string(options.together.value));
  if (options.shards != 0 && options.shards < options.ranks)
    throw Error(ErrorCode::invalid_argument,
                std::to_string(options.shards) + " shards are too few for " + std::to_string(options.ranks) + " ranks");
}

void check_groups(const SamplerOptions& options) {
  std::int64_t samples = 0;
  for (const std::vector<std::int64_t>& group : options.groups) samples += std::ssize(group);
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (options.shuffle) refuse("groups of samples are taken in their order; do not shuffle them");
  if (samples != options.samples.value)
    refuse("groups have " + std::to_string(samples) + " samples of " + std::to_string(options.samples.value) +
           "; put each sample into one of them");
  if (options.shards == 0 && options.batch.value != options.together.value * options.ranks)
    refuse("a batch of " + std::to_string(options.batch.value) + " is not " + std::to_string(options.together.value) +
           " samples for each of " + std::to_string(options.ranks) + " ranks, as groups need it");
}

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options)
    : options_(options), shards_(options.shards == 0 ? options.ranks : options.shards) {
  check(options);
  order_.resize(static_cast<std::size_t>(options.samples.value));
  if (!options.groups.empty()) divide_groups();
  start_epoch(1);
}

/// Cuts the groups into runs: with shards a step takes one, and otherwise each rank.
void DistributedSampler::divide_groups() {
  check_groups(options_);
  const bool is_shared = options_.shards > 0;
  const std::int64_t most = is_shared ? options_.batch.value : options_.together.value;
  runs_of_step_ = is_shared ? 1 : options_.ranks;
  std::int64_t first = 0;
  for (std::size_t group = 0; group < options_.groups.size(); ++group) {
    const std::vector<std::int64_t>& samples = options_.groups[group];
    std::ranges::copy(samples, order_.begin() + first);
    for (std::int64_t left = std::ssize(samples); left > 0; left -= most) {
      runs_.push_back({first, std::min(left, most), group});
      first += runs_.back().count;
    }
  }
}

void DistributedSampler::move_shards(const LeafShares& shards) {
  shards_.require_replaceable_by(shards, options_.ranks);
  shards_ = shards;
}

void DistributedSampler::start_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  if (!runs_.empty()) return;
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Random random(options_.seed, RandomStream::shuffle, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
}

std::int64_t DistributedSampler::steps() const {
  if (!runs_.empty()) return (std::ssize(runs_) + runs_of_step_ - 1) / runs_of_step_;
  const std::int64_t whole = options_.samples.value / options_.batch.value;
  const bool has_smaller = options_.samples.value % options_.batch.value != 0;
  return whole + (has_smaller && !options_.drop_last ? 1 : 0);
}

/// Returns the runs that all ranks take in a step.
std::span<const DistributedSampler::Run> DistributedSampler::runs_of(std::int64_t step) const {
  const std::int64_t first = step * runs_of_step_;
  const std::int64_t count = std::min(runs_of_step_, std::ssize(runs_) - first);
  return std::span(runs_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

/// Returns the run that this rank takes, or a part of which it takes with shards; nothing if there are too few.
std::span<const DistributedSampler::Run> DistributedSampler::own_runs(std::int64_t step) const {
  const auto runs = runs_of(step);
  if (options_.shards > 0) return runs;
  const auto rank = static_cast<std::size_t>(options_.rank.value);
  return rank < runs.size() ? runs.subspan(rank, 1) : runs.subspan(runs.size());
}

/// Returns the position of a step's first sample in the order.
std::int64_t DistributedSampler::begin_of(std::int64_t step) const {
  return runs_.empty() ? step * options_.batch.value : runs_of(step).front().first;
}

Count DistributedSampler::step_samples(std::int64_t step) const {
  if (runs_.empty()) return {std::min(options_.batch.value, options_.samples.value - begin_of(step))};
  const Run& last = runs_of(step).back();
  return {last.first + last.count - begin_of(step)};
}

/// Returns the range of a step's samples that this rank takes.
Share DistributedSampler::taken(std::int64_t step) const {
  const std::int64_t samples = step_samples(step).value;
  if (runs_.empty() || options_.shards > 0) return shared(samples);
  const auto own = own_runs(step);
  if (own.empty()) return {samples, 0};
  return {own.front().first - begin_of(step), own.front().count};
}

/// Returns the range of so many samples that this rank's shards have.
Share DistributedSampler::shared(std::int64_t samples) const {
  const std::int64_t each = options_.together.value;
  const std::int64_t units = (samples + each - 1) / each;
  const Share own = shards_.of(options_.rank.value, options_.ranks);
  const std::int64_t first = std::min(samples, each * share_of(units, own.first, shards_.total()).first);
  const std::int64_t end = std::min(samples, each * share_of(units, own.end() - 1, shards_.total()).end());
  return {first, end - first};
}

std::int64_t DistributedSampler::first(std::int64_t step) const { return taken(step).first; }

std::size_t DistributedSampler::group(std::int64_t step) const {
  if (runs_.empty()) return 0;
  const auto own = own_runs(step);
  return own.empty() ? 0 : own.front().group;
}

std::span<const std::int64_t> DistributedSampler::indices(std::int64_t step) const {
  const Share own = taken(step);
  return std::span(order_).subspan(static_cast<std::size_t>(begin_of(step) + own.first),
                                   static_cast<std::size_t>(own.count));
}

Count DistributedSampler::largest_share() const {
  std::int64_t largest = taken(0).count;
  for (std::int64_t step = 1; !runs_.empty() && step < steps(); ++step) largest = std::max(largest, taken(step).count);
  return {largest};
}

}  // namespace lockstep::data
