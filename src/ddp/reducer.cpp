// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "comm/back_end.hpp"
#include "comm/operation.hpp"
#include "ddp/rank_zero.hpp"

namespace lockstep::ddp {
namespace {

std::string tensor_range(const Layout& layout, const Bucket& bucket) {
  const std::string& first = layout.at(bucket.tensors.back()).name;
  return bucket.tensors.size() == 1 ? first : first + " … " + layout.at(bucket.tensors.front()).name;
}

std::vector<LayoutPart> owned_of(const std::vector<Bucket>& buckets, const Layout& layout, Rank rank) {
  if (buckets.empty() || buckets.front().parts.empty()) return {{{0}, layout.count()}};
  std::vector<LayoutPart> owned;
  for (std::size_t left = buckets.size(); left > 0; --left) {  // the last bucket holds the first tensors
    const LayoutPart part = buckets[left - 1].part_of(rank);
    if (part.count.value == 0) continue;
    const bool goes_on = !owned.empty() && owned.back().offset.value + owned.back().count.value == part.offset.value;
    goes_on ? void(owned.back().count.value += part.count.value) : owned.push_back(part);
  }
  return owned;
}

}  // namespace

LayoutPart Bucket::part_of(Rank rank) const {
  const auto own = static_cast<std::size_t>(rank.value);
  LayoutPart part{offset, parts[own]};
  for (std::size_t before = 0; before < own; ++before) part.offset.value += parts[before].value;
  return part;
}

std::vector<Count> even_parts(Count count, int parts) {
  const std::int64_t blocks = (count.value + Layout::alignment - 1) / Layout::alignment;
  std::vector<Count> cut;
  std::int64_t begin = 0;
  for (int part = 1; part <= parts; ++part) {
    const std::int64_t end = std::min(count.value, (blocks * part + parts - 1) / parts * Layout::alignment);
    cut.push_back({end - begin});
    begin = end;
  }
  return cut;
}

std::vector<Bucket> plan_buckets(const Layout& layout, DType dtype, const BucketOptions& options) {
  for (const Bytes size : {options.size, options.first, options.least}) {
    if (size.value < 1) {
      throw Error(ErrorCode::invalid_argument,
                  "a bucket of " + std::to_string(size.value) + " bytes: the size must be positive");
    }
  }
  std::vector<Bucket> buckets;
  Count end = layout.count();
  Bucket open;
  const auto close = [&] {
    open.count = {end.value - open.offset.value};
    open.parts = even_parts(open.count, options.parts);
    end = open.offset;
    buckets.push_back(std::move(open));
    open = {};
  };
  for (int tensor = static_cast<int>(layout.tensors().size()) - 1; tensor >= 0; --tensor) {
    const Bytes most = buckets.empty() ? std::min(options.first, options.size) : options.size;
    const bool large = layout.at(tensor).count.value * size_of(dtype) >= most.value;
    if (large && !open.tensors.empty()) close();  // small tensors that are ready need not wait for the large one
    open.offset = layout.at(tensor).offset;
    open.tensors.push_back(tensor);
    const Bytes half_of_the_rest{end.value * size_of(dtype) / 2};
    const Bytes enough = std::min(most, std::max(options.least, half_of_the_rest));
    if (large || (end.value - open.offset.value) * size_of(dtype) >= enough.value) close();
  }
  if (!open.tensors.empty()) close();
  return buckets;
}

std::uint64_t hash(const Layout& layout, DType dtype, const std::vector<Bucket>& buckets) {
  Fnv1a hash;
  hash.add(static_cast<std::int64_t>(layout.hash()));
  hash.add(name(dtype));
  for (const Bucket& bucket : buckets) {
    hash.add(bucket.offset.value);
    hash.add(bucket.count.value);
    for (const Count part : bucket.parts) hash.add(part.value);
  }
  return hash.value();
}

Reducer::Reducer(Communicator& communicator, const Layout& layout, Buffer gradients, const BucketOptions& options,
                 const Leaves& leaves, Observer* observer, const std::vector<std::int64_t>& settings)
    : communicator_(&communicator),
      layout_(&layout),
      gradients_(gradients),
      leaves_(leaves),
      observer_(observer),
      buckets_(plan_buckets(layout, gradients.dtype, options)),
      bucket_of_(layout.tensors().size()),
      pending_(buckets_.size()),
      owned_(owned_of(buckets_, layout, communicator.rank())),
      whole_({{{0}, layout.count()}}) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const int tensor : buckets_[b].tensors) bucket_of_[static_cast<std::size_t>(tensor)] = static_cast<int>(b);
    pending_[b].tensors_missing = static_cast<int>(buckets_[b].tensors.size());
    labels_.push_back("bucket " + std::to_string(b) + " (" + tensor_range(layout, buckets_[b]) + ")");
  }
  Fnv1a all;
  all.add(static_cast<std::int64_t>(hash(layout, gradients.dtype, buckets_)));
  for (const int own : leaves.shares.counts(communicator.size())) all.add(static_cast<std::int64_t>(own));
  for (const std::int64_t setting : settings) all.add(setting);
  check_agreement(all.value());
  registration_ = back_end_of(communicator).register_memory(gradients_);
}

void Reducer::check_agreement(std::uint64_t own_hash) {
  const std::vector<int> others = ranks_unlike_zero(*communicator_, own_hash, "bucket plan");
  if (others.empty()) return;
  throw_on_every_rank(
      *communicator_,
      Error(
          ErrorCode::mismatch,
          ranks_text(others) + (others.size() == 1 ? " has" : " have") +
              " another bucket plan than rank 0: build the same model on all ranks, with the same bucket size, dtype, "
              "shards, compare_every, allow_unused and shard_optimizer. Rank " +
              std::to_string(communicator_->rank().value) + " has " + std::to_string(layout_->tensors().size()) +
              " tensors with " + std::to_string(layout_->count().value) + " elements",
          {.operation = "bucket plan",
           .rank = communicator_->rank().value,
           .peers = others,
           .bytes = gradients_.bytes().value}));
}

void Reducer::ready(int tensor, Queue queue) {
  --pending_[static_cast<std::size_t>(bucket_of_[static_cast<std::size_t>(tensor)])].tensors_missing;
  launch_full_buckets(queue);
}

void Reducer::launch_full_buckets(Queue queue) {
  while (launched_ < buckets_.size() && pending_[launched_].tensors_missing == 0) {
    pending_[launched_].work.emplace(reduce(launched_, queue));
    ++launched_;
  }
}

Work Reducer::reduce(std::size_t bucket, Queue queue) {
  const Bucket& what = buckets_[bucket];
  const Buffer whole = slice(gradients_, what.offset, what.count);
  if (!scatters()) return communicator_->all_reduce(whole, whole, ReduceOp::sum, leaves_, queue, labels_[bucket]);
  const LayoutPart own = what.part_of(communicator_->rank());
  return communicator_->reduce_scatter_v(whole, slice(gradients_, own.offset, own.count), what.parts, ReduceOp::sum,
                                         queue, labels_[bucket]);
}

void Reducer::finish(Queue queue) {
  launch_full_buckets(queue);
  stream_work_.wait();
  wait_for_all("wait for gradients");
  begin_anew();
}

/// Orders the queue after all buckets. Operations that a graph has captured have ended for the host and have no result
/// of their own.
void Reducer::order_before(Queue queue) {
  if (queue.is_host()) return finish(queue);
  launch_full_buckets(queue);
  order_all_before(queue);
  begin_anew();
}

void Reducer::order_all_before(Queue queue) {
  stream_work_.drop_ended();
  for (Pending& pending : pending_) {
    if (!pending.work) continue;
    pending.work->order_before(queue);
    if (state_of(*pending.work) == Operation::State::pending) stream_work_.add(std::move(*pending.work));
    pending.work.reset();
  }
}

void Reducer::begin_anew() {
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    pending_[b].tensors_missing = static_cast<int>(buckets_[b].tensors.size());
  launched_ = 0;
}

void Reducer::gather(const Buffer& flat, Queue queue) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const LayoutPart own = bucket.part_of(communicator_->rank());
    pending_[b].work.emplace(communicator_->all_gather_v(
        slice(flat, own.offset, own.count), slice(flat, bucket.offset, bucket.count), bucket.parts, queue, labels_[b]));
  }
  queue.is_host() ? wait_for_all("wait for the other ranks' parts") : order_all_before(queue);
}

void Reducer::wait_for_all(const char* what) {
  const Clock::time_point begin = Clock::now();
  for (Pending& pending : pending_) {
    if (!pending.work) continue;  // an earlier call has waited for it, and then failed at another one
    pending.work->wait();
    pending.work.reset();
  }
  const Clock::time_point end = Clock::now();
  exposed_seconds_ += std::chrono::duration<double>(end - begin).count();
  if (observer_ != nullptr) {
    observer_->span({.track = "compute", .name = what, .begin = begin, .end = end, .bytes = {}});
  }
}

}  // namespace lockstep::ddp
