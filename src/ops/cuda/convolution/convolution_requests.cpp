// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/convolution/convolutions.hpp"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::cuda {
namespace {

constexpr std::int64_t channel_multiple = 8;

void check_dtype(DType dtype) {
  require(dtype == DType::float32 || size_of(dtype) == 2,
          "no convolutions on GPUs in " + std::string(name(dtype)) + ": use float32, bfloat16 or float16");
}

/// Returns the groups of the convolution that is computed, for channels of x and y without padding.
std::int64_t computed_groups(std::int64_t groups, std::int64_t x, std::int64_t y, DType dtype) {
  if (groups == 1 || size_of(dtype) != 2) return groups;
  if (groups == x && groups == y) return padded_channels(groups, dtype);  // depthwise
  const bool are_aligned = x / groups % channel_multiple == 0 && y / groups % channel_multiple == 0;
  return are_aligned ? groups : 1;
}

/// Pads the channels and makes the three passes of a convolution with this geometry.
ConvolutionRequests with_passes(ConvolutionRequest request, bool bias, Activation activation) {
  request.groups = computed_groups(request.groups, request.x.channels, request.y.channels, request.dtype);
  request.x.channels = padded_channels(request.x.channels, request.dtype);
  request.y.channels = padded_channels(request.y.channels, request.dtype);
  request.result = request.dtype;
  request.tf32 = request.tf32 && request.dtype == DType::float32;
  ConvolutionRequests requests{request, request, request};
  requests.forward.bias = bias;
  requests.forward.relu = activation == Activation::relu;
  requests.backward_data.pass = ConvolutionPass::backward_data;
  requests.backward_weights.pass = ConvolutionPass::backward_weights;
  return requests;
}

}  // namespace

ConvolutionRequests requests_of(const Convolution& op, const Shape& input, DType dtype, bool tf32) {
  check_dtype(dtype);
  const Shape output = op.signature(std::span(&input, 1)).output;
  ConvolutionRequests requests = with_passes({.x = input,
                                              .y = output,
                                              .kernel = op.kernel,
                                              .stride = op.stride,
                                              .padding = op.padding,
                                              .dilation = op.dilation,
                                              .groups = op.groups,
                                              .dtype = dtype,
                                              .tf32 = tf32},
                                             op.bias, op.activation);
  // The shift of the statistics lies where the state is, which has no padding.
  requests.forward.statistics = op.statistics && requests.forward.y.channels == output.channels;
  return requests;
}

ConvolutionRequests requests_of(const TransposedConvolution& op, const Shape& input, DType dtype, bool tf32) {
  check_dtype(dtype);
  const Convolution mirrored{.out_channels = input.channels,
                             .kernel = op.kernel,
                             .stride = op.stride,
                             .padding = op.padding,
                             .dilation = op.dilation,
                             .groups = op.groups,
                             .bias = false};
  const Shape output = op.signature(std::span(&input, 1)).output;
  ConvolutionRequests requests = requests_of(mirrored, output, dtype, tf32);
  std::swap(requests.forward, requests.backward_data);
  requests.transposed = true;
  return requests;
}

ConvolutionRequests requests_of(const Linear& op, const Shape& input, DType dtype, bool tf32) {
  check_dtype(dtype);
  const std::int64_t features = input.height * input.width * padded_channels(input.channels, dtype);
  return with_passes(
      {.x = {input.batch, features}, .y = op.signature(std::span(&input, 1)).output, .dtype = dtype, .tf32 = tf32},
      true, op.activation);
}

std::string text(const ConvolutionRequest& request) {
  static constexpr std::array passes{"forward", "backward_data", "backward_weights"};
  const Windows windows{request.kernel, request.stride, request.padding, request.dilation};
  std::string dtype(name(request.dtype));
  if (request.tf32) dtype = "tf32";
  if (request.result != request.dtype) dtype += " with a result in " + std::string(name(request.result));
  return passes.at(static_cast<std::size_t>(request.pass)) + std::string(" of convolution ") + text(windows) +
         text_of_groups(request.groups) + (request.bias ? ", bias" : "") + (request.relu ? ", ReLU" : "") +
         (request.statistics ? ", statistics" : "") + ", from " + text(request.x) + " to " + text(request.y) + " in " +
         dtype;
}

}  // namespace lockstep::ops::cuda
