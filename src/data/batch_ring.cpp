// SPDX-License-Identifier: Apache-2.0
#include "data/batch_ring.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "data/check.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

/// Threads take runs of about this size, so that the lock costs nothing beside reading them. A picture of 150×150
/// pixels or more is a run of its own.
constexpr std::int64_t run_bytes = std::int64_t{64} << 10;

/// Reads consecutive samples of a batch into their slots of each tensor. Threads may read different samples at the same
/// time.
/// @param key      seed and epoch of all samples
/// @param indices  the samples of the batch, by index in the data set
/// @param next     position in the batch of the first sample to be read; afterwards that of the first one that is not
///                 read, which is `end`, unless the data set has thrown
/// @param tensors  each is filled by the samples of the batch
/// @param slots    scratch, one for each tensor
void read_range(const Dataset& dataset, SampleKey key, std::span<const std::int64_t> indices, std::size_t& next,
                std::size_t end, std::span<const Buffer> tensors, std::span<Buffer> slots) {
  for (; next < end; ++next) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Count each{tensors[i].count.value / static_cast<std::int64_t>(indices.size())};
      slots[i] = slice(tensors[i], {static_cast<std::int64_t>(next) * each.value}, each);
    }
    key.index = indices[next];
    dataset.read(key, slots);
  }
}

void check_arguments(const Dataset* dataset, DType real, const DistributedSampler& sampler,
                     const PrefetchOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (dataset == nullptr) refuse("batches are made of a data set, and none was given");
  if (real != DType::float32 && real != DType::float64)
    refuse("batches are made in float32 or float64, not in " + std::string(name(real)));
  if (options.workers < 0) refuse("the number of workers must not be negative, not " + std::to_string(options.workers));
  if (options.held < 1) refuse("at least 1 batch has to stay valid, not " + std::to_string(options.held));
  if (options.ahead < 0)
    refuse("the memory of batches ahead must not be negative, not " + std::to_string(options.ahead.value) + " bytes");
  check_tensors(dataset->name(), dataset->tensors());
  if (const std::int64_t dealt = sampler.options().samples.value; dealt > dataset->size())
    refuse("the sampler deals " + std::to_string(dealt) + " samples, but the data set \"" + dataset->name() +
           "\" has only " + std::to_string(dataset->size()));
}

/// Returns the tensors of a batch, by extents.
/// @param bytes       names of those that are uint8
/// @param has_groups  whether batches are those of evaluation groups
std::vector<std::vector<TensorSpec>> specs_of(const Dataset& dataset, const std::vector<std::string>& bytes,
                                              bool has_groups) {
  std::vector<std::vector<TensorSpec>> all = extents_with_bytes(dataset);
  for (EvaluationGroup& group : has_groups ? dataset.evaluation_groups() : std::vector<EvaluationGroup>()) {
    all.push_back(std::move(group.tensors));
    for (std::size_t i = 0; i < all.back().size() && i < all.front().size(); ++i)
      all.back()[i].bytes = all.front()[i].bytes;
  }
  std::size_t left = bytes.size();
  for (const TensorSpec& spec : all.front())
    if (spec.bytes && std::ranges::find(bytes, spec.name) != bytes.end()) --left;
  for (std::vector<TensorSpec>& specs : all)
    for (TensorSpec& spec : specs)
      if (std::ranges::find(bytes, spec.name) == bytes.end()) spec.bytes.reset();
  if (left == 0) return all;
  std::string names;
  for (const std::string& name : bytes) names += (names.empty() ? "\"" : "\", \"") + name;
  throw Error(ErrorCode::invalid_argument,
              "the data set \"" + dataset.name() + "\" does not have bytes of all of its tensors " + names + "\"");
}

}  // namespace

BatchRing::BatchRing(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler,
                     PrefetchOptions options)
    : dataset_(std::move(dataset)), real_(real), sampler_(std::move(sampler)), options_(std::move(options)) {
  check_arguments(dataset_.get(), real, sampler_, options_);
  const bool has_groups = !sampler_.options().groups.empty();
  specs_ = specs_of(*dataset_, options_.bytes, has_groups);
  if (!options_.draws_extents && !has_groups) specs_.resize(1);
  for (const std::vector<TensorSpec>& specs : specs_) {
    std::int64_t bytes = 0;
    for (const TensorSpec& spec : specs) bytes += spec.elements() * size_of(spec.dtype(real_));
    sample_bytes_.push_back(bytes);
  }
  if (specs_.size() > 1) extents_.resize(static_cast<std::size_t>(sampler_.steps()));
  allocate();
}

/// Asks the data set for the extents of all steps of the epoch, where it may fail.
void BatchRing::draw_extents() {
  const std::vector<std::vector<std::int64_t>>& groups = sampler_.options().groups;
  for (std::size_t step = 0; step < extents_.size() && !groups.empty(); ++step)
    extents_[step] = specs_.size() - groups.size() + sampler_.group(static_cast<std::int64_t>(step));
  if (!groups.empty()) return;
  for (std::size_t step = 0; step < extents_.size(); ++step) {
    const StepKey key{
        .seed = sampler_.options().seed, .epoch = sampler_.epoch(), .step = static_cast<std::int64_t>(step)};
    extents_[step] = dataset_->extents_of(key);
    if (extents_[step] < specs_.size()) continue;
    throw Error(ErrorCode::invalid_argument, "the data set \"" + dataset_->name() + "\" draws the extents number " +
                                                 std::to_string(extents_[step]) + " for step " + std::to_string(step) +
                                                 " of epoch " + std::to_string(key.epoch) + "; it has " +
                                                 std::to_string(specs_.size()) + ", counted from 0");
  }
}

/// Allocates memory for the largest batch in each entry, unless it is there. Beside the batches in use there is one for
/// each worker and one more, as far as their memory allows; at least one.
void BatchRing::allocate() {
  const std::int64_t samples = sampler_.largest_share().value;
  const std::int64_t batch_bytes = std::max<std::int64_t>(samples * std::ranges::max(sample_bytes_), 1);
  const int workers = options_.workers;
  size_ = options_.held;
  if (workers > 0) size_ += std::clamp<std::int64_t>(options_.ahead.value / batch_bytes, 1, workers + 1);
  entries_.resize(static_cast<std::size_t>(size_));
  for (PreparedBatch& entry : entries_) {
    entry.memory.resize(tensors());
    entry.tensors.resize(tensors());
    for (std::size_t i = 0; i < tensors(); ++i) {
      Bytes bytes;
      for (const std::vector<TensorSpec>& specs : specs_)
        bytes.value = std::max(bytes.value, samples * specs[i].elements() * size_of(specs[i].dtype(real_)));
      if (bytes > entry.memory[i].bytes()) entry.memory[i] = options_.allocate(bytes);
    }
  }
}

void BatchRing::begin_at(std::int64_t step) {
  for (PreparedBatch& entry : entries_) entry.is_ready = false;
  at_.drawn = at_.taken = at_.oldest_in_use = step;
  at_.drawn_samples = 0;
  at_.is_paused = false;
}

void BatchRing::start_epoch(std::int64_t epoch) {
  sampler_.start_epoch(epoch);
  at_.end = 0;  // should there be no memory
  allocate();
  draw_extents();
  at_.end = sampler_.steps();
}

void BatchRing::move_shards(const LeafShares& shards) {
  sampler_.move_shards(shards);
  const std::int64_t end = std::exchange(at_.end, 0);  // should there be no memory
  allocate();
  at_.end = end;
}

/// Prepares an entry for the samples of the step that is drawn next.
void BatchRing::open(PreparedBatch& entry) noexcept {
  const auto indices = sampler_.indices(at_.drawn);
  const Count count{static_cast<std::int64_t>(indices.size())};
  const std::size_t extents = extents_.empty() ? 0 : extents_[static_cast<std::size_t>(at_.drawn)];
  const std::vector<TensorSpec>& specs = specs_[extents];
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Buffer memory = entry.memory[i].as(specs[i].dtype(real_));
    entry.tensors[i] = slice(memory, {0}, {count.value * specs[i].elements()});
  }
  entry.batch = {.step = at_.drawn,
                 .samples = count,
                 .step_samples = sampler_.step_samples(at_.drawn),
                 .first = sampler_.first(at_.drawn),
                 .ids = indices,
                 .extents = extents,
                 .tensors = entry.tensors};
  entry.unread = count.value;
  entry.error = nullptr;
}

SampleRun BatchRing::draw() {
  PreparedBatch& entry = entry_of(at_.drawn);
  if (at_.drawn_samples == 0) open(entry);
  const std::size_t samples = entry.batch.ids.size();
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(run_bytes / sample_bytes(entry.batch.extents), 1));
  ++at_.reading;
  SampleRun run{.into = &entry, .epoch = sampler_.epoch(), .step = at_.drawn, .first = at_.drawn_samples};
  run.count = std::min(most, samples - run.first);
  at_.drawn_samples += run.count;
  run.is_last = at_.drawn_samples == samples;
  if (run.is_last) {
    ++at_.drawn;
    at_.drawn_samples = 0;
  }
  return run;
}

ReadFailure BatchRing::read(const SampleRun& run, std::span<Buffer> slots) const noexcept {
  const SampleKey key{.seed = sampler_.options().seed, .epoch = run.epoch, .extents = run.into->batch.extents};
  std::size_t sample = run.first;
  try {
    read_range(*dataset_, key, run.into->batch.ids, sample, run.first + run.count, run.into->tensors, slots);
  } catch (...) {
    return {std::current_exception(), sample};
  }
  return {};
}

bool BatchRing::finish(const SampleRun& run, const ReadFailure& failure) {
  --at_.reading;
  PreparedBatch& entry = *run.into;
  entry.unread -= static_cast<std::int64_t>(run.count);
  if (failure.error) {
    if (!entry.error || failure.sample < entry.failed) {
      entry.error = failure.error;
      entry.failed = failure.sample;
    }
    if (at_.drawn == run.step) {  // the samples behind are not drawn yet
      entry.unread -= static_cast<std::int64_t>(entry.batch.ids.size() - std::exchange(at_.drawn_samples, 0));
      ++at_.drawn;
    }
  }
  entry.is_ready = entry.unread == 0;
  return entry.is_ready;
}

bool BatchRing::release() {
  const std::int64_t before = at_.oldest_in_use;
  for (; at_.oldest_in_use <= at_.taken - options_.held; ++at_.oldest_in_use)
    entry_of(at_.oldest_in_use).is_ready = false;
  return at_.oldest_in_use != before;
}

}  // namespace lockstep::data
