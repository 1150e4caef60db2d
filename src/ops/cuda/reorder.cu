// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/implementation.hpp"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_view.hpp"

namespace lockstep::ops::cuda {
namespace {

template <typename E>
struct ReadElements {
  __device__ float operator()(const void* data, std::int64_t i, std::int64_t /*channel*/) const {
    return load<E>(data, i);
  }
};

struct ReadBytes {
  const float* numbers;  // channels × 256

  __device__ float operator()(const void* data, std::int64_t i, std::int64_t channel) const {
    return numbers[channel * 256 + static_cast<const std::uint8_t*>(data)[i]];
  }
};

/// Neighboring threads write neighboring elements.
template <typename To, typename Read>
void convert(const Format& from, const Format& to, const Read& read, const Arguments& call) {
  const TensorView source = view_of(from);
  const TensorView target = view_of(to);
  const bool to_plain = to.native == nullptr;
  const void* in = call.inputs[0];
  void* out = call.output;
  for_each(
      target.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = to_plain ? target.plain_position(i / target.sample_stride, i % target.sample_stride)
                                     : target.nhwc_position(i);
        const bool exists = at.channel < source.channels && at.row < source.height && at.column < source.width;
        store<To>(out, i, exists ? read(in, source.offset(at), at.channel) : 0.0F);
      },
      call.queue);
}

}  // namespace

Implementation make_reorder(const Format& from, const Format& to) {
  return with_elements(from.dtype, [&](auto f) {
    return with_elements(to.dtype, [&](auto t) {
      return Implementation{
          .traits = {.inputs = {from}, .output = to},
          .forward = [=](const Arguments& call) { convert<decltype(t)>(from, to, ReadElements<decltype(f)>{}, call); },
          .backward = {}};
    });
  });
}

Implementation make_byte_conversion(std::shared_ptr<const Allocation> table, const Format& to) {
  const Format from = Format::plain(to.shape, DType::uint8);
  return with_elements(to.dtype, [&](auto t) {
    return Implementation{.traits = {.inputs = {from}, .output = to},
                          .forward =
                              [=](const Arguments& call) {
                                convert<decltype(t)>(from, to, ReadBytes{static_cast<const float*>(table->data())},
                                                     call);
                              },
                          .backward = {}};
  });
}

}  // namespace lockstep::ops::cuda
