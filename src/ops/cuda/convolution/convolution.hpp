// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ops/kernel_choices.hpp"
#include "lockstep/ops/ops.hpp"
#include "ops/cuda/convolution/convolutions.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {

/// A convolution, a transposed convolution or a linear layer as the library of convolutions sees it.
struct ConvolutionLayer {
  Format input;
  Format output;
  ConvolutionRequests requests;  ///< for a batch of at least 1
  Packing weights;
  std::optional<Packing> bias;  ///< where the copy has more channels; otherwise it is read where it is
  bool has_bias = false;
  bool has_statistics = false;  ///< `Convolution::statistics`
  Activation activation = Activation::none;
};

/// The layer of one of these operators; empty for the others.
/// @param in     the input with any format
/// @param dtype  of activations
std::optional<ConvolutionLayer> convolution_layer(const Operator& op, const Format& in, DType dtype, bool tf32);

/// The candidates for the layer's passes; the others differ from the first in one pass.
std::vector<KernelAlgorithms> candidates(const ConvolutionLayer& layer, Convolutions& convolutions,
                                         const std::string& library);

/// A kernel whose weights are packed.
class ConvolutionKernel : public Kernel {
 public:
  using Kernel::Kernel;
  /// How a parameter is packed.
  [[nodiscard]] virtual const Packing& packing(int parameter) const = 0;
};

/// Returns while its plans are still being made. What needs them waits, `Kernel::workspace` first of all, and throws
/// Error{unsupported} naming the request if the library cannot compute it.
/// @param convolutions  outlives the kernel
/// @param chosen        the algorithms; null: the library's rule
std::unique_ptr<ConvolutionKernel> make_convolution(const ConvolutionLayer& layer, Convolutions& convolutions,
                                                    const KernelAlgorithms* chosen, IfMissing if_missing);

}  // namespace lockstep::ops::cuda
