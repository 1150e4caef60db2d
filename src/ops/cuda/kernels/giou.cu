// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/losses.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// x1, y1, x2, y2: elements k and k + 2 are the ends along axis k.
struct Box {
  double at[4];
  [[nodiscard]] __device__ double area() const { return (at[2] - at[0]) * (at[3] - at[1]); }
};

template <typename E>
__device__ Box load_box(const void* boxes, std::int64_t first) {
  Box box;
  for (int k = 0; k < 4; ++k) box.at[k] = static_cast<double>(load<E>(boxes, first + k));
  return box;
}

/// The areas that the loss of two boxes consists of.
struct Areas {
  double inner[2];  ///< extents of the intersection; negative if there is a gap
  double outer[2];  ///< extents of the smallest box that contains both
  bool overlapping;
  double common;
  double united;
  double hull;
  double united_divisor;
  double hull_divisor;

  __device__ Areas(const Box& a, const Box& b, double epsilon) {
    for (int k = 0; k < 2; ++k) {
      inner[k] = smaller(a.at[k + 2], b.at[k + 2]) - larger(a.at[k], b.at[k]);
      outer[k] = larger(a.at[k + 2], b.at[k + 2]) - smaller(a.at[k], b.at[k]);
    }
    overlapping = inner[0] > 0 && inner[1] > 0;
    common = overlapping ? inner[0] * inner[1] : 0;
    united = a.area() + b.area() - common;
    hull = outer[0] * outer[1];
    united_divisor = larger(united, 0) + epsilon;
    hull_divisor = larger(hull, 0) + epsilon;
  }
  // A NaN in the first operand stays, so that a diverged loss is visible.
  static __device__ double smaller(double a, double b) { return b < a ? b : a; }
  static __device__ double larger(double a, double b) { return a < b ? b : a; }
  [[nodiscard]] __device__ double loss() const { return 1 - common / united_divisor + (hull - united) / hull_divisor; }
};

/// The derivative of max(a, b) by a; it is 0.5 for equal values.
__device__ double is_larger(double a, double b) { return a == b ? 0.5 : static_cast<double>(a > b); }

/// The gradient of the loss with respect to the coordinates of `a`.
__device__ Box gradient_of(const Areas& areas, const Box& a, const Box& b) {
  const double by_united =
      (areas.united > 0 ? areas.common / areas.united_divisor / areas.united_divisor : 0) - 1 / areas.hull_divisor;
  // The intersection is in both boxes, but counts only once in the union.
  const double by_common = -1 / areas.united_divisor - by_united;
  const double by_hull =
      (areas.hull > 0 ? 1 - (areas.hull - areas.united) / areas.hull_divisor : 1.0) / areas.hull_divisor;
  Box gradient;
  for (int k = 0; k < 2; ++k) {
    const int other = 1 - k;
    const double common = by_common * (areas.overlapping ? areas.inner[other] : 0);
    const double united = by_united * (a.at[other + 2] - a.at[other]);
    const double hull = by_hull * areas.outer[other];
    gradient.at[k] = -(common * is_larger(a.at[k], b.at[k]) + united + hull * is_larger(b.at[k], a.at[k]));
    gradient.at[k + 2] =
        common * is_larger(b.at[k + 2], a.at[k + 2]) + united + hull * is_larger(a.at[k + 2], b.at[k + 2]);
  }
  return gradient;
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
Implementation giou(const Giou& op, std::span<const Format> in) {
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

Implementation make(const Giou& op, std::span<const Format> in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return giou<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
