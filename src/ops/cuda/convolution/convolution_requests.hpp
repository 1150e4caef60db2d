// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/ops/operators.hpp"
#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {

/// The requests of an operator's passes to a library of convolutions. All three have the same geometry.
///
/// Shapes have padded channels. `groups` is the operator's, except that it is the number of padded channels for a
/// depthwise convolution in 16 bits, and 1 if the channels of a group are no multiple of 8 in 16 bits: the packed
/// weights then have zeros outside the blocks of the groups, and only the blocks of the weight gradient are used.
///
/// `kernel` is the operator's, except that it is one larger along an axis of a transposed convolution whose output
/// padding is at least a stride and larger than its padding: the packed weights have zeros there, at the end.
///
/// A linear layer of C×H×W inputs is a convolution of one position with H·W·(padded C) channels, which are ordered as
/// the NHWC input lies in memory.
struct ConvolutionRequests {
  /// With the operator's bias and ReLU, unless the operator is transposed, and with its statistics, unless channels are
  /// padded.
  ConvolutionRequest forward;
  ConvolutionRequest backward_data;
  ConvolutionRequest backward_weights;  ///< the result is of the activations' dtype, unless a choice says otherwise
  /// Whether the operator's input and its gradient are y of the requests, and its output and its gradient are x: a
  /// transposed convolution is the backward pass of a convolution, with the same weights. The request `forward` is then
  /// of the pass `backward_data`, and has neither bias nor ReLU, and `backward_data` is of the pass `forward`. With an
  /// output padding that is not below the stride, y has more rows and columns than the operator's input, which are
  /// zeros.
  bool transposed = false;
};

/// @param input  of the operator, without padding; the batch is at least 1
/// @param dtype  of the activations: float32, bfloat16 or float16
/// @param tf32   whether float32 operands may be rounded to TF32
/// @throws Error{invalid_argument} naming an invalid option, extent or dtype
ConvolutionRequests requests_of(const Convolution& op, const Shape& input, DType dtype, bool tf32);
ConvolutionRequests requests_of(const TransposedConvolution& op, const Shape& input, DType dtype, bool tf32);
ConvolutionRequests requests_of(const Linear& op, const Shape& input, DType dtype, bool tf32);

/// Returns a text such as "backward_data of a 3×3 convolution, stride 2, from 8x64x32x32 to 8x128x16x16 in bfloat16".
std::string text(const ConvolutionRequest& request);

}  // namespace lockstep::ops::cuda
