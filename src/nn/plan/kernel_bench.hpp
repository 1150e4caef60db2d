// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// Runs the kernels of an operator on random operands, in the formats that all of them have.
class KernelBench {
 public:
  /// @param kernels  at least one
  KernelBench(const ops::Operator& op, std::span<const ops::KernelPtr> kernels, DType dtype,
              const ops::ComputeDevice& device);

  /// Submits a pass to the device's queue. Of `backward` it computes only the gradients of the inputs, if the kernel
  /// can and they are wanted, or only those of the parameters.
  void run(ops::Kernel& kernel, ops::Pass pass, bool wants_input_gradients);
  void wait() const { device_.wait(device_.queue()); }  // wait for timing only

 private:
  /// Avoids zeros and denormals, which change the speed of processors. Padding channels are drawn, too.
  /// @param dtype  what the numbers are drawn as
  void* drawn(Bytes bytes, DType dtype);

  const ops::ComputeDevice& device_;
  std::vector<Allocation> memory_;
  std::vector<const void*> inputs_;
  std::vector<const void*> parameters_;
  std::vector<void*> state_;
  std::vector<void*> input_gradients_;
  std::vector<void*> parameter_gradients_;
  double* part_ = nullptr;
  void* output_ = nullptr;
  void* output_gradient_ = nullptr;
  void* workspace_ = nullptr;
};

}  // namespace lockstep::nn
