// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/workplaces.hpp"

#include "platform/machine/available_memory.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace lockstep::comm_bench {
namespace {

std::string in_mebibytes(double bytes) { return std::to_string(static_cast<std::int64_t>(bytes / (1 << 20))) + " MiB"; }

}  // namespace

DeviceExercise::DeviceExercise(const Shape& shape, void* mirror, void* device, const Copy& copy)
    : Exercise(shape, mirror),
      mirror_(static_cast<std::byte*>(mirror)),
      device_(static_cast<std::byte*>(device)),
      bytes_(memory_needed(shape)),
      copy_(&copy) {}

Collective DeviceExercise::collective() const {
  Collective c = Exercise::collective();
  c.in.data = device_ + (static_cast<const std::byte*>(c.in.data) - mirror_);
  c.out.data = device_ + (static_cast<std::byte*>(c.out.data) - mirror_);
  c.in.kind = c.out.kind = MemoryKind::device;
  return c;
}

void DeviceExercise::refill(std::int64_t repetition) {
  Exercise::refill(repetition);
  (*copy_)(device_, mirror_, bytes_);
}

std::int64_t DeviceExercise::wrong(std::int64_t repetition) {
  (*copy_)(mirror_, device_, bytes_);
  return Exercise::wrong(repetition);
}

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

void require_memory(const World& world, Bytes per_rank) {
  agree(world.group(), [&] {
    const auto available = static_cast<double>(available_memory().value);
    const double needed = 2.0 * static_cast<double>(per_rank.value) * world.place().local_size;
    if (needed <= available) return;
    throw Error(ErrorCode::unsupported, "the largest size needs about " + in_mebibytes(needed) + " for the node's " +
                                            std::to_string(world.place().local_size) + " ranks, and " +
                                            in_mebibytes(available) + " are available; choose a smaller --max");
  });
}

}  // namespace lockstep::comm_bench
