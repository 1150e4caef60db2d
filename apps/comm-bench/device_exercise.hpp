// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "apps/comm-bench/exercise.hpp"

namespace lockstep::comm_bench {

/// An exercise in device memory, which the host cannot access. It is written and checked in a mirror on the host, which
/// is copied to the device before the operation and back after it.
class DeviceExercise : public Exercise {
 public:
  /// Copies and returns when the bytes have arrived. @throws Error{device}
  using Copy = std::function<void(void* to, const void* from, Bytes bytes)>;

  /// @pre both memories hold memory_needed(shape); they and the copy outlive the exercise
  DeviceExercise(const Shape& shape, void* mirror, void* device, const Copy& copy);

  [[nodiscard]] Collective collective() const override;
  void refill(std::int64_t repetition) override;
  [[nodiscard]] std::int64_t wrong(std::int64_t repetition) override;

 private:
  std::byte* mirror_;
  std::byte* device_;
  Bytes bytes_;
  const Copy* copy_;
};

}  // namespace lockstep::comm_bench
