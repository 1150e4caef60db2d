// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/device/classes.cuh"
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

/// The sums over a sample's channel, which forward saves for backward.
struct DiceRatio {
  double dividend;
  double divisor;
  std::int64_t from_end;  ///< as of `LossTerms`
};

/// The sums over a part of a plane.
struct DiceSums {
  double common;
  double total;
  std::int64_t from_end;
  friend __device__ DiceSums operator+(const DiceSums& a, const DiceSums& b) {
    return {a.common + b.common, a.total + b.total, a.from_end > b.from_end ? a.from_end : b.from_end};
  }
};

/// The targets of a call: planes of numbers, or labels.
struct DiceTargets {
  const float* planes;  ///< null: there are labels
  Labels labels;

  [[nodiscard]] __device__ bool counts(std::int64_t row) const { return planes != nullptr || labels.counts(row); }
  [[nodiscard]] __device__ float at(std::int64_t row, std::int64_t channel) const {
    if (planes != nullptr) return planes[row * labels.classes + channel];
    return labels.data[row] == channel ? 1 : 0;
  }
  [[nodiscard]] __device__ std::int64_t bad_from_end(std::int64_t row) const {
    return planes != nullptr ? 0 : labels.bad_from_end(row);
  }
};

__device__ float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

struct DicePlanes {
  TensorView view;
  std::int64_t positions;  ///< of a plane
  Dice op;

  DicePlanes(const Format& logits, const Dice& of)
      : view(view_of(logits)), positions(view.height * view.width), op(of) {}
  [[nodiscard]] DiceTargets targets(const Arguments& call) const {
    const Labels labels{static_cast<const std::int32_t*>(op.by_label ? call.inputs[1] : nullptr), view.positions(),
                        view.channels, op.ignore_index};
    return {static_cast<const float*>(op.by_label ? nullptr : call.inputs[1]), labels};
  }
  [[nodiscard]] std::int64_t count() const { return view.samples * view.channels; }
  [[nodiscard]] Bytes ratios() const { return {count() * static_cast<std::int64_t>(sizeof(DiceRatio))}; }
  /// The bytes of partial sums, of planes and then of the loss.
  [[nodiscard]] Bytes partials() const {
    const std::int64_t of_planes =
        RowParts(positions, count()).partials() * static_cast<std::int64_t>(sizeof(DiceSums));
    return {std::max(of_planes, loss_workspace(count()).value)};
  }
};

/// The sums over the positions of each plane, then over the planes.
template <typename E>
void sum_planes(const DicePlanes& planes, const Arguments& call, DiceRatio* ratios) {
  const void* logits = call.inputs[0];
  const DiceTargets targets = planes.targets(call);
  const TensorView view = planes.view;
  const std::int64_t positions = planes.positions;
  const double epsilon = planes.op.epsilon;
  sum_rows<DiceSums>(
      positions, planes.count(),
      [=] __device__(std::int64_t position, std::int64_t plane) {
        const std::int64_t row = plane / view.channels * positions + position;
        const std::int64_t channel = plane % view.channels;
        if (!targets.counts(row)) return DiceSums{0, 0, targets.bad_from_end(row)};
        const auto p = static_cast<double>(sigmoid(load<E>(logits, row * view.padded + channel)));
        const auto t = static_cast<double>(targets.at(row, channel));
        return DiceSums{p * t, p + t, 0};
      },
      [=] __device__(std::int64_t plane, const DiceSums& sums) {
        ratios[plane] = {2 * sums.common + epsilon, sums.total + epsilon, sums.from_end};
      },
      call.workspace, call.queue);
  sum_rows<LossTerms>(
      planes.count(), 1,
      [=] __device__(std::int64_t plane, std::int64_t /*column*/) {
        return LossTerms{1, 1 - ratios[plane].dividend / ratios[plane].divisor, 0, ratios[plane].from_end};
      },
      FinishLabels{targets.labels, positions, static_cast<LossSums*>(call.output), false, call.fault, call.node},
      call.workspace, call.queue);
}

/// The loss subtracts n ÷ d, whose gradient is n' ÷ d − n·d' ÷ d².
template <typename E>
void dice_gradients(const DicePlanes& planes, const Arguments& call) {
  const void* logits = call.inputs[0];
  const DiceTargets targets = planes.targets(call);
  const auto* ratios = static_cast<const DiceRatio*>(call.saved);
  void* of_logits = call.input_gradients[0];
  auto* of_targets = static_cast<float*>(call.input_gradients[1]);
  const double* factor = factor_of(call);
  const TensorView view = planes.view;
  const std::int64_t positions = planes.positions;
  for_each(
      view.elements(),
      [=] __device__(std::int64_t i) {
        const std::int64_t channel = i % view.padded;
        const std::int64_t row = i / view.padded;
        if (channel >= view.channels || !targets.counts(row)) {
          if (of_logits != nullptr) store<E>(of_logits, i, 0);
          return;
        }
        const DiceRatio ratio = ratios[row / positions * view.channels + channel];
        const auto twice = static_cast<float>(2 / ratio.divisor);
        const auto once = static_cast<float>(ratio.dividend / ratio.divisor / ratio.divisor);
        const float p = sigmoid(load<E>(logits, i));
        const float t = targets.at(row, channel);
        const auto scale = static_cast<float>(*factor);
        if (of_logits != nullptr) store<E>(of_logits, i, scaled(scale, (once - twice * t) * p * (1 - p)));
        if (of_targets != nullptr) of_targets[row * view.channels + channel] = scaled(scale, once - twice * p);
      },
      call.queue);
}

template <typename E>
Implementation dice(const Dice& op, Formats in) {
  const DicePlanes planes(in[0], op);
  // An evaluation, which saves nothing, has its ratios in the workspace after the partial sums.
  const std::int64_t after_partials = (planes.partials().value + 15) / 16 * 16;
  return {.traits = loss_traits(in, {after_partials + planes.ratios().value}, planes.ratios()),
          .forward = [=](const Arguments& call) { sum_planes<E>(planes, call, static_cast<DiceRatio*>(call.saved)); },
          .backward = [=](const Arguments& call) { dice_gradients<E>(planes, call); },
          .infer =
              [=](const Arguments& call) {
                auto* ratios = static_cast<char*>(call.workspace) + after_partials;
                sum_planes<E>(planes, call, reinterpret_cast<DiceRatio*>(ratios));
              },
          .normalizer = [=](const Arguments& call) { write_weight(call, static_cast<double>(planes.count())); }};
}

}  // namespace

Implementation make(const Giou& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return giou<decltype(e)>(op, in); });
}

Implementation make(const Dice& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return dice<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
