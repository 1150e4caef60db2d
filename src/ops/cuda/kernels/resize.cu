// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// An interpolated value is (1 − share)·in[first] + share·in[second].
struct Between {
  std::int64_t first;
  std::int64_t second;
  float share;
  /// The part of element `i` of the input in the value.
  [[nodiscard]] __device__ float weight(std::int64_t i) const {
    return (first == i ? 1 - share : 0) + (second == i ? share : 0);
  }
};

/// How elements along one axis of a result are made of those of the input, as the reference has it.
struct ResizedAxis {
  std::int64_t in;
  std::int64_t out;
  Interpolation mode;
  bool align_corners;

  [[nodiscard]] __device__ double scale() const {
    if (!align_corners) return static_cast<double>(in) / static_cast<double>(out);
    return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  }
  [[nodiscard]] __device__ Between source(std::int64_t i) const {
    if (mode == Interpolation::nearest) {
      const float ratio = static_cast<float>(in) / static_cast<float>(out);
      const auto nearest = min(static_cast<std::int64_t>(std::floor(static_cast<float>(i) * ratio)), in - 1);
      return {nearest, nearest, 0};
    }
    const auto index = static_cast<double>(i);
    const double at = align_corners ? scale() * index : fmax(0.0, scale() * (index + 0.5) - 0.5);
    const std::int64_t first = min(static_cast<std::int64_t>(at), in - 1);
    const double share = fmin(fmax(at - static_cast<double>(first), 0.0), 1.0);
    return {first, min(first + 1, in - 1), static_cast<float>(share)};
  }

  /// Elements begin … end − 1 of the result, among which are all that element `i` of the input is a part of.
  struct Uses {
    std::int64_t begin;
    std::int64_t end;
  };
  [[nodiscard]] __device__ Uses uses(std::int64_t i) const {
    if (scale() == 0) return {0, out};
    const bool nearest = mode == Interpolation::nearest;
    const double center = nearest || align_corners ? 0 : 0.5;
    const double reach = nearest ? 0 : 1;
    const auto index = static_cast<double>(i);
    // One more on each side is for what is rounded. What lies outside of the input belongs to its first and last
    // elements.
    const auto begin = static_cast<std::int64_t>(std::floor((index - reach + center) / scale() - center)) - 1;
    const auto end = static_cast<std::int64_t>(std::ceil((index + 1 + center) / scale() - center)) + 1;
    return {i == 0 || begin < 0 ? 0 : begin, i == in - 1 || end > out ? out : end};
  }
};

struct Resizing {
  TensorView in;
  TensorView out;
  ResizedAxis rows;
  ResizedAxis columns;

  Resizing(const Resize& op, const Format& from, const Format& to)
      : in(view_of(from)),
        out(view_of(to)),
        rows{in.height, out.height, op.mode, op.align_corners},
        columns{in.width, out.width, op.mode, op.align_corners} {}
};

__device__ float blend(float first, float second, float share) {
  return share == 0 ? first : (1 - share) * first + share * second;
}

template <typename E>
void interpolate(const Resizing& of, const void* x, void* y, Queue queue) {
  for_each(
      of.out.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = of.out.nhwc_position(i);
        const Between row = of.rows.source(at.row);
        const Between column = of.columns.source(at.column);
        const auto value = [&](std::int64_t r, std::int64_t c) {
          return load<E>(x, of.in.offset({at.sample, at.channel, r, c}));
        };
        const float first = blend(value(row.first, column.first), value(row.second, column.first), row.share);
        const float second = blend(value(row.first, column.second), value(row.second, column.second), row.share);
        store<E>(y, i, blend(first, second, column.share));
      },
      queue);
}

/// Each element of the input gathers the gradients of the elements that it is a part of, in their order.
template <typename E>
void gather_gradients(const Resizing& of, const void* dy, void* dx, Queue queue) {
  for_each(
      of.in.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = of.in.nhwc_position(i);
        const auto rows = of.rows.uses(at.row);
        const auto columns = of.columns.uses(at.column);
        float sum = 0;
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
          const float row_weight = of.rows.source(row).weight(at.row);
          if (row_weight == 0) continue;
          float of_row = 0;
          for (std::int64_t column = columns.begin; column < columns.end; ++column) {
            const float weight = of.columns.source(column).weight(at.column);
            if (weight != 0) of_row += weight * load<E>(dy, of.out.offset({at.sample, at.channel, row, column}));
          }
          sum += row_weight * of_row;
        }
        store<E>(dx, i, sum);
      },
      queue);
}

template <typename E>
Implementation resize(const Resizing& of, const Format& in, const Format& out) {
  return {.traits = {.inputs = {in}, .output = out, .backward_reads_inputs = false, .backward_reads_output = false},
          .forward = [=](const Arguments& call) { interpolate<E>(of, call.inputs[0], call.output, call.queue); },
          .backward =
              [=](const Arguments& call) {
                void* dx = call.input_gradients[0];
                if (dx != nullptr) gather_gradients<E>(of, call.output_gradient, dx, call.queue);
              }};
}

}  // namespace

Implementation make(const Resize& op, std::span<const Format> in, const Signature& signature) {
  const Format out = nhwc(signature.output, in[0].dtype);
  return with_elements(in[0].dtype, [&](auto e) { return resize<decltype(e)>(Resizing(op, in[0], out), in[0], out); });
}

}  // namespace lockstep::ops::cuda
