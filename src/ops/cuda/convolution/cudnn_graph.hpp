// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/cuda/convolution/convolutions.hpp"
#include "ops/cuda/convolution/cudnn_descriptor.hpp"

namespace lockstep::ops::cuda {

/// The identifiers of the tensors of a graph, by which a plan is told their addresses.
enum TensorId : std::int64_t {
  x_tensor = 1,
  w_tensor,
  y_tensor,
  bias_tensor,
  products_tensor,
  biased_tensor,
  shift_tensor,
  deviations_tensor,
  squares_tensor,
  sum_tensor,
  sum_of_squares_tensor
};

/// Returns the operations of a request, with its epilogue if `is_fused`.
std::vector<Descriptor> operations_of(const ConvolutionRequest& request, bool is_fused);

}  // namespace lockstep::ops::cuda
