// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/implementation.hpp"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_view.hpp"

namespace lockstep::ops::cuda {
namespace {

/// Neighboring threads write neighboring elements.
template <typename From, typename To>
Implementation reorder(const Format& from, const Format& to) {
  const TensorView source = view_of(from);
  const TensorView target = view_of(to);
  const bool to_plain = to.native == nullptr;
  return {.traits = {.inputs = {from}, .output = to},
          .forward =
              [=](const Arguments& call) {
                const void* in = call.inputs[0];
                void* out = call.output;
                for_each(
                    target.elements(),
                    [=] __device__(std::int64_t i) {
                      const Position at =
                          to_plain ? target.plain_position(i / target.sample_stride, i % target.sample_stride)
                                   : target.nhwc_position(i);
                      const bool exists =
                          at.channel < source.channels && at.row < source.height && at.column < source.width;
                      store<To>(out, i, exists ? load<From>(in, source.offset(at)) : 0.0F);
                    },
                    call.queue);
              },
          .backward = {}};
}

}  // namespace

Implementation make_reorder(const Format& from, const Format& to) {
  return with_elements(from.dtype, [&](auto f) {
    return with_elements(to.dtype, [&](auto t) { return reorder<decltype(f), decltype(t)>(from, to); });
  });
}

}  // namespace lockstep::ops::cuda
