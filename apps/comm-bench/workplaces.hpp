// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/gpu/gpu.hpp"

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

/// Rejects sizes for which the nodes lack memory, because a node would swap, which measures its disk, or kill a rank.
/// @param per_rank  the buffers of one rank; back ends may use as much again for their own copies
/// @throws Error{unsupported}, on every rank, naming need and supply. Collective.
void require_memory(const World& world, Bytes per_rank);

}  // namespace lockstep::comm_bench
