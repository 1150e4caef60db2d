// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/anchors.hpp"

namespace lockstep::ops::cuda {
namespace {

/// A thread has a number of a prediction.
template <typename E>
void decode(const AnchorMap& map, std::int64_t padded, const Arguments& call) {
  const void* x = call.inputs[0];
  auto* y = static_cast<float*>(call.output);
  for_each(
      map.cells() * map.numbers,
      [=] __device__(std::int64_t i) {
        const Division to = divide(i, map.numbers);
        const auto k = static_cast<int>(to.remainder);
        const Division column = divide(to.quotient, map.width);
        const Division row = divide(column.quotient, map.height);
        const Division image = divide(row.quotient, map.anchors);
        const std::int64_t anchor = image.remainder;
        const std::int64_t pixel = (image.quotient * map.height + row.remainder) * map.width + column.remainder;
        const float sigmoid = 1 / (1 + std::exp(-load<E>(x, pixel * padded + anchor * map.numbers + k)));
        const auto cell = static_cast<float>(k == 0 ? column.remainder : row.remainder);
        const auto size = static_cast<float>(map.sizes[anchor][k % 2]);
        y[i] = k < 4 ? decoded(k, sigmoid, cell, size) * static_cast<float>(map.stride) : sigmoid;
      },
      call.queue);
}

}  // namespace

Implementation make(const AnchorDecode& op, Formats in, const Signature& signature) {
  const AnchorMap map(in[0].shape, op.anchors, op.stride);
  const std::int64_t padded = view_of(in[0]).padded;
  const Traits traits{.inputs = {in[0]}, .output = nhwc(signature.output, DType::float32)};
  return with_elements(in[0].dtype, [&](auto e) {
    return Implementation{.traits = traits,
                          .forward = [=](const Arguments& call) { decode<decltype(e)>(map, padded, call); },
                          .backward = {}};
  });
}

}  // namespace lockstep::ops::cuda
