// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/losses.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/boxes.hpp"

namespace lockstep::ops::cuda {
namespace {

template <typename E>
__device__ Box load_box(const void* boxes, std::int64_t first) {
  Box box;
  for (int k = 0; k < 4; ++k) box.at[k] = static_cast<double>(load<E>(boxes, first + k));
  return box;
}

/// The predicted boxes, the targets and the weights of a call.
struct BoxInputs {
  const void* boxes;
  const void* targets;
  const float* weights;  ///< may be null
  std::int64_t padded;   ///< of the predictions
  double epsilon;

  BoxInputs(const Arguments& call, std::int64_t padded_channels, double divisor_epsilon)
      : boxes(call.inputs[0]),
        targets(call.inputs[1]),
        weights(call.inputs.size() < 3 ? nullptr : static_cast<const float*>(call.inputs[2])),
        padded(padded_channels),
        epsilon(divisor_epsilon) {}
  [[nodiscard]] __device__ double weight(std::int64_t i) const {
    return weights == nullptr ? 1 : static_cast<double>(weights[i]);
  }
};

template <typename E>
void sum_boxes(const BoxInputs& in, std::int64_t count, const Arguments& call) {
  sum_rows<LossTerms>(
      count, 1,
      [=] __device__(std::int64_t i, std::int64_t /*column*/) {
        const double weight = in.weight(i);
        const Areas areas(load_box<E>(in.boxes, i * in.padded), load_box<Float32>(in.targets, 4 * i), in.epsilon);
        return LossTerms{weight, scaled(weight, areas.loss()), 0, 0};
      },
      WriteSums{static_cast<LossSums*>(call.output)}, call.workspace, call.queue);
}

template <typename E>
void write_gradients(const BoxInputs& in, std::int64_t count, const Arguments& call) {
  void* of_boxes = call.input_gradients[0];
  void* of_targets = call.input_gradients[1];
  auto* of_weights = in.weights == nullptr ? nullptr : static_cast<float*>(call.input_gradients[2]);
  const double* factor = factor_of(call);
  for_each(
      count,
      [=] __device__(std::int64_t i) {
        const Box a = load_box<E>(in.boxes, i * in.padded);
        const Box b = load_box<Float32>(in.targets, 4 * i);
        const Areas areas(a, b, in.epsilon);
        const double scale = *factor * in.weight(i);
        if (of_boxes != nullptr) {
          const Box gradient = gradient_of(areas, a, b);
          for (std::int64_t k = 0; k < in.padded; ++k)
            store<E>(of_boxes, i * in.padded + k, k < 4 ? static_cast<float>(scaled(scale, gradient.at[k & 3])) : 0);
        }
        if (of_targets != nullptr) {
          const Box gradient = gradient_of(areas, b, a);
          for (int k = 0; k < 4; ++k)
            store<Float32>(of_targets, 4 * i + k, static_cast<float>(scaled(scale, gradient.at[k])));
        }
        if (of_weights != nullptr) of_weights[i] = static_cast<float>(scaled(*factor, areas.loss()));
      },
      call.queue);
}

template <typename E>
Implementation giou(const Giou& op, Formats in) {
  const TensorView view = view_of(in[0]);
  const std::int64_t count = view.positions();
  return {
      .traits = loss_traits(in, loss_workspace(count)),
      .forward = [=](const Arguments& call) { sum_boxes<E>(BoxInputs(call, view.padded, op.epsilon), count, call); },
      .backward =
          [=](const Arguments& call) { write_gradients<E>(BoxInputs(call, view.padded, op.epsilon), count, call); },
      .normalizer = [=](const Arguments& call) { sum_weights(call, count); }};
}

}  // namespace

Implementation make(const Giou& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return giou<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
