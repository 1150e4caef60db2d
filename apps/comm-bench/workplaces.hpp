// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/comm-bench/contender.hpp"
#include "apps/comm-bench/device_exercise.hpp"
#include "apps/comm-bench/options.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::comm_bench {

/// The memory that contenders work on. A contender has memory from its communicator if that is better than ordinary
/// memory. The others share one buffer, which is the mirror of device memory.
class Workplaces {
 public:
  /// @param largest  needs as much memory as any later exercise
  /// @throws as Communicator::allocate; Error{device}
  Workplaces(const Contenders& contenders, const Exercise::Shape& largest, Buffers buffers);

  /// Returns an exercise of this size for each contender, in their order; valid until the next call.
  [[nodiscard]] const std::vector<Exercise*>& exercises(const Exercise::Shape& shape);

 private:
  std::optional<Stream> stream_;  // copies to and from the device, if there is one
  DeviceExercise::Copy copy_;
  std::vector<Allocation> allocations_;  // one for each contender; empty if it uses the shared buffer
  Allocation common_;
  std::vector<std::unique_ptr<Exercise>> exercises_;
  std::vector<Exercise*> views_;
};

}  // namespace lockstep::comm_bench
