// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/ops.hpp"

namespace lockstep::on_emulated_gpus {

/// Operators for tests in float32: Linear, Relu, Add and CrossEntropy, and SGD. The same loops run on the host and, one
/// turn of a loop in each thread, on a GPU.
class TestOps : public ops::Ops {
 public:
  /// The number of kernels that were submitted.
  [[nodiscard]] virtual int submitted() const = 0;
};

/// @param device  where the operators compute; null: on the host
std::unique_ptr<TestOps> make_test_ops(std::unique_ptr<ops::ComputeDevice> device);

}  // namespace lockstep::on_emulated_gpus
