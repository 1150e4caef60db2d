// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

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

/// Neighboring threads write neighboring elements, or packs of channels where a position has all of them.
template <typename To, typename Read>
void convert_to_plain(const TensorView& source, const TensorView& target, const Read& read, const Arguments& call) {
  const void* in = call.inputs[0];
  void* out = call.output;
  for_each(
      target.elements(),
      [=] __device__(std::int64_t i) {
        const Division sample = divide(i, target.sample_stride);
        const Position at = target.plain_position(sample.quotient, sample.remainder);
        const bool exists = at.channel < source.channels && at.row < source.height && at.column < source.width;
        store<To>(out, i, exists ? read(in, source.offset(at), at.channel) : 0.0F);
      },
      call.queue);
}

template <typename To, int size, typename Read>
void convert_to_nhwc(const TensorView& source, const TensorView& target, const Read& read, const Arguments& call) {
  const void* in = call.inputs[0];
  void* out = call.output;
  const std::int64_t packs = target.padded / size;
  for_each(
      target.positions() * packs,
      [=] __device__(std::int64_t i) {
        const Division pixel = divide(i, packs);
        Position at = target.first_channel(pixel.quotient);
        const bool exists = at.row < source.height && at.column < source.width;
        Pack<size> values{};
        for (int k = 0; k < size; ++k) {
          at.channel = pixel.remainder * size + k;
          if (exists && at.channel < source.channels) values.at[k] = read(in, source.offset(at), at.channel);
        }
        store_pack<To, size>(out, i, values);
      },
      call.queue);
}

template <typename Read>
Submit convert(const Format& from, const Format& to, const Read& read) {
  const TensorView source = view_of(from);
  const TensorView target = view_of(to);
  if (to.native == nullptr) {
    return with_elements(to.dtype, [&](auto t) -> Submit {
      return [=](const Arguments& call) { convert_to_plain<decltype(t)>(source, target, read(), call); };
    });
  }
  return with_packs(to, [&](auto t, auto size) -> Submit {
    return [=](const Arguments& call) { convert_to_nhwc<decltype(t), size>(source, target, read(), call); };
  });
}

}  // namespace

Implementation make_reorder(const Format& from, const Format& to) {
  return with_elements(from.dtype, [&](auto f) {
    return Implementation{.traits = {.inputs = {from}, .output = to},
                          .forward = convert(from, to, [] { return ReadElements<decltype(f)>{}; }),
                          .backward = {}};
  });
}

Implementation make_byte_conversion(std::shared_ptr<const Allocation> table, const Format& to) {
  const Format from = Format::plain(to.shape, DType::uint8);
  return {.traits = {.inputs = {from}, .output = to},
          .forward = convert(from, to, [table] { return ReadBytes{static_cast<const float*>(table->data())}; }),
          .backward = {}};
}

}  // namespace lockstep::ops::cuda
