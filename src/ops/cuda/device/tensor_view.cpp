// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/tensor_view.hpp"

namespace lockstep::ops::cuda {

Format nhwc(const Shape& shape, DType dtype) {
  static constexpr DType descriptors[] = {DType::float32, DType::bfloat16, DType::float16};
  const int index = dtype == DType::bfloat16 ? 1 : (dtype == DType::float16 ? 2 : 0);
  const std::int64_t positions = shape.batch * shape.height * shape.width;
  return {.shape = shape,
          .dtype = dtype,
          .bytes = {positions * padded_channels(shape.channels, dtype) * size_of(dtype)},
          .native = std::shared_ptr<const void>(std::shared_ptr<const void>(), &descriptors[index]),
          .layout = "nhwc"};
}

TensorView view_of(const Format& format) {
  const Shape& s = format.shape;
  const bool plain = format.native == nullptr;
  const std::int64_t padded = plain ? s.channels : padded_channels(s.channels, format.dtype);
  TensorView view{.samples = s.batch,
                  .channels = s.channels,
                  .height = Divisor(s.height),
                  .width = Divisor(s.width),
                  .sample_stride = padded * s.height * s.width,
                  .padded = Divisor(padded)};
  view.channel_stride = plain ? s.height * s.width : 1;
  view.row_stride = plain ? s.width : s.width * padded;
  view.column_stride = plain ? 1 : padded;
  return view;
}

}  // namespace lockstep::ops::cuda
