// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer.hpp"

#include <cstdint>

#include "lockstep/base/error.hpp"

namespace lockstep::ddp {
namespace {

std::string tensor_range(const Layout& layout, const Bucket& bucket) {
  const std::string& first = layout.at(bucket.tensors.back()).name;
  return bucket.tensors.size() == 1 ? first : first + " … " + layout.at(bucket.tensors.front()).name;
}

}  // namespace

Reducer::Reducer(Communicator& communicator, const Layout& layout, Buffer gradients, const BucketOptions& options,
                 Observer* observer)
    : communicator_(&communicator),
      layout_(&layout),
      gradients_(gradients),
      observer_(observer),
      buckets_(plan_buckets(layout, gradients.dtype, options)),
      bucket_of_(layout.tensors().size()),
      pending_(buckets_.size()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const int tensor : buckets_[b].tensors) bucket_of_[static_cast<std::size_t>(tensor)] = static_cast<int>(b);
    pending_[b].tensors_missing = static_cast<int>(buckets_[b].tensors.size());
    labels_.push_back("bucket " + std::to_string(b) + " (" + tensor_range(layout, buckets_[b]) + ")");
  }
  check_agreement(hash(layout, gradients.dtype, buckets_));
}

void Reducer::check_agreement(std::uint64_t own_hash) {
  auto mine = static_cast<std::int64_t>(own_hash);
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator_->size()));
  communicator_
      ->all_gather(Buffer{&mine, {1}, DType::int64}, Buffer{all.data(), {communicator_->size()}, DType::int64},
                   Queue::host(), "bucket plan")
      .wait();
  std::vector<int> others;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) others.push_back(static_cast<int>(rank));
  }
  if (others.empty()) return;
  throw Error(
      ErrorCode::mismatch,
      "the gradients of the ranks named here are not cut like rank 0's: do all ranks build the same model with the "
      "same size of buckets and dtype? Here are " +
          std::to_string(layout_->tensors().size()) + " tensors in " + std::to_string(buckets_.size()) + " buckets",
      {.operation = "bucket plan",
       .rank = communicator_->rank().value,
       .peers = others,
       .bytes = gradients_.bytes().value})
      .on_every_rank();
}

void Reducer::ready(int tensor, Queue queue) {
  --pending_[static_cast<std::size_t>(bucket_of_[static_cast<std::size_t>(tensor)])].tensors_missing;
  launch_full_buckets(queue);
}

void Reducer::launch_full_buckets(Queue queue) {
  while (launched_ < buckets_.size() && pending_[launched_].tensors_missing == 0) {
    const Buffer bucket = slice(gradients_, buckets_[launched_].offset, buckets_[launched_].count);
    pending_[launched_].work.emplace(
        communicator_->all_reduce(bucket, bucket, ReduceOp::sum, queue, labels_[launched_]));
    ++launched_;
  }
}

void Reducer::finish() {
  const Clock::time_point begin = Clock::now();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    pending_[b].work->wait();
    pending_[b].work.reset();
    pending_[b].tensors_missing = static_cast<int>(buckets_[b].tensors.size());
  }
  launched_ = 0;
  const Clock::time_point end = Clock::now();
  exposed_seconds_ += std::chrono::duration<double>(end - begin).count();
  if (observer_ != nullptr) {
    observer_->span({.track = "compute", .name = "wait for gradients", .begin = begin, .end = end, .bytes = {}});
  }
}

}  // namespace lockstep::ddp
