// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/workplaces.hpp"

namespace lockstep::comm_bench {

Workplaces::Workplaces(const Contenders& contenders, const Exercise::Shape& largest, Buffers buffers)
    : common_(allocate_host(Exercise::memory_needed(largest))) {
  for (const auto& contender : contenders) {
    allocations_.push_back(buffers == Buffers::allocate ? contender->allocate(Exercise::memory_needed(largest))
                                                        : Allocation{});
    if (allocations_.back().kind() == MemoryKind::device && !stream_) stream_.emplace();
  }
  copy_ = [this](void* to, const void* from, Bytes bytes) {
    copy_bytes(to, from, bytes, stream_->queue());
    stream_->synchronize();
  };
}

const std::vector<Exercise*>& Workplaces::exercises(const Exercise::Shape& shape) {
  exercises_.clear();
  views_.clear();
  for (const Allocation& own : allocations_) {
    if (own.data() != nullptr && own.kind() == MemoryKind::device) {
      exercises_.push_back(std::make_unique<DeviceExercise>(shape, common_.data(), own.data(), copy_));
    } else {
      exercises_.push_back(std::make_unique<Exercise>(shape, own.data() != nullptr ? own.data() : common_.data()));
    }
    views_.push_back(exercises_.back().get());
  }
  return views_;
}

}  // namespace lockstep::comm_bench
