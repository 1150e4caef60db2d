// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "apps/comm-bench/contender.hpp"
#include "apps/comm-bench/exercise.hpp"

namespace lockstep::comm_bench {

/// The memory that contenders work on: each has what its communicator allocates, where that is better than ordinary
/// memory; the others share one buffer.
class Workplaces {
 public:
  /// @param largest  needs as much memory as any exercise to come
  /// @throws as Communicator::allocate
  Workplaces(const Contenders& contenders, const Exercise::Shape& largest, Buffers buffers);

  /// An exercise of this size for each contender, in their order; valid until the next call.
  [[nodiscard]] const std::vector<Exercise*>& exercises(const Exercise::Shape& shape);

 private:
  std::vector<Allocation> allocations_;  // one for each contender; empty where it shares
  Allocation common_;
  std::vector<std::unique_ptr<Exercise>> exercises_;
  std::vector<Exercise*> views_;
};

}  // namespace lockstep::comm_bench
