// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/device_exercise.hpp"

namespace lockstep::comm_bench {

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

}  // namespace lockstep::comm_bench
