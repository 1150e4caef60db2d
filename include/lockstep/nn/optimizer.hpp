// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// As PyTorch's SGD names them; dampening is 0.
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  ///< on every parameter, biases and batch norm's included, as PyTorch's SGD does
};

/// Stochastic gradient descent with momentum over flat slices; the velocity belongs to the caller and starts at 0.
/// @source Sutskever, Martens, Dahl, Hinton, ICML 2013, in PyTorch's form (velocity without the learning rate)
class Sgd {
 public:
  /// @throws Error{invalid_argument} if an option is negative, or Nesterov is asked for without momentum
  Sgd(ops::Ops& ops, SgdOptions options);

  [[nodiscard]] const SgdOptions& options() const { return options_; }

  /// Updates `parameters` and `velocity` in place. The one place where gradients, which are sums over samples, are
  /// divided by the number of samples.
  /// @param samples_in_step  over all ranks, positive
  /// @throws Error{invalid_argument} if counts or dtypes differ, or `samples_in_step` is not positive
  void step(Buffer parameters, ConstBuffer gradients, Buffer velocity, std::int64_t samples_in_step,
            double learning_rate);

 private:
  ops::Ops& ops_;
  SgdOptions options_;
};

}  // namespace lockstep::nn
