// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/ops/device.hpp"

namespace lockstep::nn {

/// Reduces gradients, and the numbers of a step beside them, over ranks. Buffers are in memory of the step's device. An
/// operation follows earlier work of its queue, and later work of the queue follows the operation. The thread that
/// submits the step makes the calls, in the same order on every rank, also on ranks without samples.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  /// Number of ranks.
  [[nodiscard]] virtual int size() const = 0;
  /// Starts to reduce the gradient of a parameter (an index into `Graph::parameters()`), which is complete for this
  /// rank's samples. `finish` completes the reduction. The call does not block the host for long.
  virtual void reduce(int parameter, Queue queue) = 0;
  /// Advances the communication that is under way. Is called between operators of the backward pass.
  virtual void progress() = 0;
  /// Overwrites the numbers (float64) with their sums over ranks.
  virtual void sum(const Buffer& numbers, Queue queue) = 0;
  /// Overwrites `all` with the concatenation of every rank's `own` (float64).
  virtual void gather(const Buffer& own, const Buffer& all, Queue queue) = 0;
  /// Is called once in a step, after all parameters: overwrites the numbers (float64) with their sums over ranks. The
  /// gradients that this rank's update uses are sums over ranks, too, for later work of the queue.
  virtual void finish(const Buffer& numbers, Queue queue) = 0;
  /// With a sharded optimizer: overwrites the parameters that other ranks have updated with their values.
  virtual void gather_parameters(Queue queue) = 0;
};

/// The reducer of a single rank, whose sums are its own.
class SingleRank final : public GradientReducer {
 public:
  /// @param device  the device of the buffers; outlives this
  explicit SingleRank(const ops::ComputeDevice& device = ops::host_device()) : device_(&device) {}
  [[nodiscard]] int size() const override { return 1; }
  void reduce(int /*parameter*/, Queue /*queue*/) override {}
  void progress() override {}
  void sum(const Buffer& /*numbers*/, Queue /*queue*/) override {}
  void gather(const Buffer& own, const Buffer& all, Queue queue) override {
    device_->copy(all.data, own.data, own.bytes(), queue);
  }
  void finish(const Buffer& /*numbers*/, Queue /*queue*/) override {}
  void gather_parameters(Queue /*queue*/) override {}

 private:
  const ops::ComputeDevice* device_;
};

}  // namespace lockstep::nn
