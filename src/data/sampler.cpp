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

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options)
    : options_(options), shards_(options.shards == 0 ? options.ranks : options.shards) {
  check(options);
  order_.resize(static_cast<std::size_t>(options.samples.value));
  start_epoch(1);
}

void DistributedSampler::move_shards(const LeafShares& shards) {
  shards_.require_replaceable_by(shards, options_.ranks);
  shards_ = shards;
}

void DistributedSampler::start_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Random random(options_.seed, RandomStream::shuffle, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
}

std::int64_t DistributedSampler::steps() const {
  const std::int64_t whole = options_.samples.value / options_.batch.value;
  const bool has_smaller = options_.samples.value % options_.batch.value != 0;
  return whole + (has_smaller && !options_.drop_last ? 1 : 0);
}

Count DistributedSampler::step_samples(std::int64_t step) const {
  return {std::min(options_.batch.value, options_.samples.value - step * options_.batch.value)};
}

/// Returns the range of a step's samples that this rank takes.
Share DistributedSampler::taken(std::int64_t step) const {
  const std::int64_t samples = step_samples(step).value;
  const std::int64_t each = options_.together.value;
  const std::int64_t units = (samples + each - 1) / each;
  const Share own = shards_.of(options_.rank.value, options_.ranks);
  const std::int64_t first = std::min(samples, each * share_of(units, own.first, shards_.total()).first);
  const std::int64_t end = std::min(samples, each * share_of(units, own.end() - 1, shards_.total()).end());
  return {first, end - first};
}

std::int64_t DistributedSampler::first(std::int64_t step) const { return taken(step).first; }

std::span<const std::int64_t> DistributedSampler::indices(std::int64_t step) const {
  const Share own = taken(step);
  return std::span(order_).subspan(static_cast<std::size_t>(step * options_.batch.value + own.first),
                                   static_cast<std::size_t>(own.count));
}

Count DistributedSampler::largest_share() const { return {taken(0).count}; }

}  // namespace lockstep::data
