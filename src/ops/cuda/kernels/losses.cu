// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/losses.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/functions.hpp"

namespace lockstep::ops::cuda {
namespace {

/// Predictions in the activation dtype, and targets and optional weights in float32.
struct LossInputs {
  const void* x;
  const float* t;
  const float* w;  ///< may be null
  TensorView view;

  LossInputs(Formats in, const Arguments& call)
      : x(call.inputs[0]),
        t(static_cast<const float*>(call.inputs[1])),
        w(call.inputs.size() < 3 ? nullptr : static_cast<const float*>(call.inputs[2])),
        view(view_of(in[0])) {}
};

/// The terms of an element, given by its index among the channels of all positions.
template <typename E, typename At>
struct ElementTerms {
  LossInputs in;
  At at;
  __device__ LossTerms operator()(std::int64_t i, std::int64_t /*column*/) const {
    const std::int64_t row = i / in.view.channels;
    const float x = load<E>(in.x, row * in.view.padded + i % in.view.channels);
    const float weight = in.w == nullptr ? 1 : in.w[i];
    bool right = false;
    if constexpr (At::judges) right = at.right(x, in.t[i]);
    return {static_cast<double>(weight), static_cast<double>(scaled(weight, at.loss(x, in.t[i]))),
            right ? static_cast<double>(weight) : 0, 0};
  }
};

/// Writes the gradients of an element, given by its index in memory.
template <typename E, typename At>
struct ElementGradients {
  LossInputs in;
  At at;
  const double* factor;
  void* of_x;
  float* of_t;
  float* of_w;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t channel = i % in.view.padded;
    if (channel >= in.view.channels) {
      if (of_x != nullptr) store<E>(of_x, i, 0);
      return;
    }
    const std::int64_t j = i / in.view.padded * in.view.channels + channel;
    const float x = load<E>(in.x, i);
    const float t = in.t[j];
    const auto scale = static_cast<float>(*factor);
    const float weighted = in.w == nullptr ? scale : scale * in.w[j];
    if (of_x != nullptr) store<E>(of_x, i, scaled(weighted, at.by_prediction(x, t)));
    if (of_t != nullptr) of_t[j] = scaled(weighted, at.by_target(x, t));
    if (of_w != nullptr) of_w[j] = scaled(scale, at.loss(x, t));
  }
};

template <typename E, typename At>
Implementation elementwise_loss(const At& at, Formats formats) {
  const std::vector<Format> in(formats.begin(), formats.end());
  const std::int64_t count = in[0].shape.count();
  return {.traits = loss_traits(in, loss_workspace(count)),
          .forward =
              [=](const Arguments& call) {
                sum_rows<LossTerms>(count, 1, ElementTerms<E, At>{LossInputs(in, call), at},
                                    WriteSums{static_cast<LossSums*>(call.output)}, call.workspace, call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                const auto gradient = [&](std::size_t i) {
                  return i < call.input_gradients.size() ? static_cast<float*>(call.input_gradients[i]) : nullptr;
                };
                const ElementGradients<E, At> body{LossInputs(in, call),    at,          factor_of(call),
                                                   call.input_gradients[0], gradient(1), gradient(2)};
                for_each(view_of(in[0]).elements(), body, call.queue);
              },
          .normalizer = [=](const Arguments& call) { sum_weights(call, count); }};
}

}  // namespace

Implementation make(const SmoothL1& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return elementwise_loss<decltype(e)>(SmoothL1At<float>(op), in); });
}

Implementation make(const BinaryCrossEntropy& op, Formats in, const Signature& /*signature*/) {
  const BinaryCrossEntropyAt<float, LibraryLog> at(op);
  return with_elements(in[0].dtype, [&](auto e) { return elementwise_loss<decltype(e)>(at, in); });
}

}  // namespace lockstep::ops::cuda
