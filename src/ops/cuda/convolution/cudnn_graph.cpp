// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <span>
#include <utility>

#include "ops/cuda/convolution/cudnn_engines.hpp"

namespace lockstep::ops::cuda {
namespace {

cudnnDataType_t cudnn_type(DType dtype) {
  if (dtype == DType::bfloat16) return CUDNN_DATA_BFLOAT16;
  return dtype == DType::float16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/// Describes a tensor N×C×H×W, or weights K×C×R×S, whose channels are next to each other in memory.
/// @param is_virtual  whether it is never stored
/// @param alignment   of its address, in bytes
Descriptor cudnn_tensor(TensorId id, const Shape& shape, DType dtype, bool is_virtual = false,
                        std::int64_t alignment = 16) {
  const std::array<std::int64_t, 4> extents{shape.batch, shape.channels, shape.height, shape.width};
  const std::array<std::int64_t, 4> strides{shape.channels * shape.height * shape.width, 1,
                                            shape.channels * shape.width, shape.channels};
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<std::int64_t>(id))
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(dtype))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(extents))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(strides))
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  return std::move(descriptor).finalize("describe a tensor");
}

/// The padding at the end of an axis with which x has as many windows as y. That is the request's, except for
/// transposed convolutions whose output padding is a stride or more: no window reaches the elements that it adds.
std::int64_t padding_at_end(std::int64_t x, std::int64_t y, std::int64_t kernel, std::int64_t stride,
                            std::int64_t padding, std::int64_t dilation) {
  const std::int64_t windows = (x + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  return padding - (windows - y) * stride;
}

Descriptor convolution_descriptor(const ConvolutionRequest& request) {
  const auto pair = [](const Pair& both) { return std::array<std::int64_t, 2>{both.height, both.width}; };
  const auto dilation = pair(request.dilation);
  const auto stride = pair(request.stride);
  const auto padding = pair(request.padding);
  const std::array<std::int64_t, 2> at_end{
      padding_at_end(request.x.height, request.y.height, request.kernel.height, stride[0], padding[0], dilation[0]),
      padding_at_end(request.x.width, request.y.width, request.kernel.width, stride[1], padding[1], dilation[1])};
  Descriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const std::int64_t>(dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const std::int64_t>(stride))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const std::int64_t>(padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const std::int64_t>(at_end));
  return std::move(descriptor).finalize("describe a convolution");
}

/// The names of a pass and its attributes in the graph API.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};
PassNames names_of(ConvolutionPass pass) {
  if (pass == ConvolutionPass::forward) {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  }
  if (pass == ConvolutionPass::backward_data) {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

/// y = the function of x, and of b if it has two operands, in float32.
Descriptor pointwise_operation(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                               const Descriptor& y) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, std::move(function).finalize("describe a function"))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  return std::move(operation).finalize("describe a pointwise operation");
}

Descriptor pass_operation(const ConvolutionRequest& request, const Descriptor& x, const Descriptor& w,
                          const Descriptor& y) {
  const PassNames names = names_of(request.pass);
  Descriptor operation(names.operation);
  operation.set(names.convolution, convolution_descriptor(request)).set(names.alpha, 1.0F).set(names.beta, 0.0F);
  operation.set(names.x, x).set(names.w, w).set(names.y, y);
  return std::move(operation).finalize("describe a pass of a convolution");
}

// Without this attribute engines add atomically. cuDNN and its header have it since 9.11.
constexpr auto is_deterministic_sum = static_cast<cudnnBackendAttributeName_t>(1602);

/// y = the sum of x over the positions of each channel, in a fixed order.
Descriptor sum_operation(const Descriptor& x, const Descriptor& y) {
  Descriptor sum(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  sum.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD)
      .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(is_deterministic_sum, true);
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, std::move(sum).finalize("describe a sum"))
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  return std::move(operation).finalize("describe a sum over positions");
}

/// Stores y, and sums its deviations from a shift, and their squares.
void add_statistics(const ConvolutionRequest& request, const Descriptor& products, const Descriptor& y,
                    std::vector<Descriptor>& operations) {
  const Shape channels{1, request.y.channels};
  const Descriptor shift = cudnn_tensor(shift_tensor, channels, DType::float32, false, size_of(DType::float32));
  const Descriptor deviations = cudnn_tensor(deviations_tensor, request.y, DType::float32, true);
  const Descriptor squares = cudnn_tensor(squares_tensor, request.y, DType::float32, true);
  operations.push_back(pointwise_operation(CUDNN_POINTWISE_IDENTITY, products, nullptr, y));
  operations.push_back(pointwise_operation(CUDNN_POINTWISE_SUB, products, &shift, deviations));
  operations.push_back(sum_operation(deviations, cudnn_tensor(sum_tensor, channels, DType::float32)));
  operations.push_back(pointwise_operation(CUDNN_POINTWISE_MUL, deviations, &deviations, squares));
  operations.push_back(sum_operation(squares, cudnn_tensor(sum_of_squares_tensor, channels, DType::float32)));
}

}  // namespace

std::vector<Descriptor> operations_of(const ConvolutionRequest& request, bool is_fused) {
  const bool bias = is_fused && request.bias;
  const bool relu = is_fused && request.relu;
  const bool statistics = is_fused && request.statistics;
  // No engine writes a gradient of weights in another dtype, but some copy it from their products on the way out.
  const bool copies_w = request.pass == ConvolutionPass::backward_weights && request.result != request.dtype;
  const Shape w_shape{request.y.channels, request.x.channels / request.groups, request.kernel.height,
                      request.kernel.width};
  const Descriptor x = cudnn_tensor(x_tensor, request.x, request.dtype);
  const Descriptor w = cudnn_tensor(w_tensor, w_shape, copies_w ? request.result : request.dtype);
  const Descriptor y = cudnn_tensor(y_tensor, request.y, request.dtype);
  const Descriptor products = cudnn_tensor(products_tensor, copies_w ? w_shape : request.y, DType::float32, true);

  std::vector<Descriptor> operations;
  operations.push_back(pass_operation(request, x, copies_w ? products : w, bias || relu || statistics ? products : y));
  if (copies_w) operations.push_back(pointwise_operation(CUDNN_POINTWISE_IDENTITY, products, nullptr, w));
  if (bias) {
    const Descriptor bias_of_channels = cudnn_tensor(bias_tensor, {1, request.y.channels}, DType::float32);
    const Descriptor biased = cudnn_tensor(biased_tensor, request.y, DType::float32, true);
    operations.push_back(pointwise_operation(CUDNN_POINTWISE_ADD, products, &bias_of_channels, relu ? biased : y));
    if (relu) operations.push_back(pointwise_operation(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, y));
  } else if (relu) {
    operations.push_back(pointwise_operation(CUDNN_POINTWISE_RELU_FWD, products, nullptr, y));
  }
  if (statistics) add_statistics(request, products, y, operations);
  return operations;
}

}  // namespace lockstep::ops::cuda
