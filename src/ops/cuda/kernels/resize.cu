// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/resized_axis.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The part of element `i` of the input in a value.
__device__ float weight_of(std::int64_t i, const Between<float>& value) {
  return (value.first == i ? 1 - value.share : 0) + (value.second == i ? value.share : 0);
}

/// Elements begin … end − 1 of a result.
struct Uses {
  std::int64_t begin;
  std::int64_t end;
};

/// Returns elements among which are all that element `i` of the input is a part of.
__device__ Uses uses_of(std::int64_t i, const ResizedAxis& axis) {
  if (axis.scale() == 0) return {0, axis.out};
  const bool nearest = axis.mode == Interpolation::nearest;
  const double center = nearest || axis.align_corners ? 0 : 0.5;
  const double reach = nearest ? 0 : 1;
  const auto index = static_cast<double>(i);
  // One more on each side is for what is rounded. What lies outside of the input belongs to its first and last
  // elements.
  const auto begin = static_cast<std::int64_t>(std::floor((index - reach + center) / axis.scale() - center)) - 1;
  const auto end = static_cast<std::int64_t>(std::ceil((index + 1 + center) / axis.scale() - center)) + 1;
  return {i == 0 || begin < 0 ? 0 : begin, i == axis.in - 1 || end > axis.out ? axis.out : end};
}

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

/// The channels of a pack have the same weights.
template <int size>
__device__ Pack<size> blend(const Pack<size>& first, const Pack<size>& second, float share) {
  Pack<size> both;
  for (int k = 0; k < size; ++k) both.at[k] = blend(first.at[k], second.at[k], share);
  return both;
}

template <typename E, int size>
void interpolate(const Resizing& of, const void* x, void* y, Queue queue) {
  for_each(
      of.out.elements() / size,
      [=] __device__(std::int64_t i) {
        const Position at = of.out.nhwc_position(i * size);
        const auto row = of.rows.source<float>(at.row);
        const auto column = of.columns.source<float>(at.column);
        const auto value = [&](std::int64_t r, std::int64_t c) {
          return load_pack<E, size>(x, of.in.offset({at.sample, at.channel, r, c}) / size);
        };
        const Pack<size> first = blend(value(row.first, column.first), value(row.second, column.first), row.share);
        const Pack<size> second = blend(value(row.first, column.second), value(row.second, column.second), row.share);
        store_pack<E, size>(y, i, blend(first, second, column.share));
      },
      queue);
}

/// Each element of the input gathers the gradients of the elements that it is a part of, in their order.
template <typename E, int size>
void gather_gradients(const Resizing& of, const void* dy, void* dx, Queue queue) {
  for_each(
      of.in.elements() / size,
      [=] __device__(std::int64_t i) {
        const Position at = of.in.nhwc_position(i * size);
        const Uses rows = uses_of(at.row, of.rows);
        const Uses columns = uses_of(at.column, of.columns);
        Pack<size> sum{};
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
          const float row_weight = weight_of(at.row, of.rows.source<float>(row));
          if (row_weight == 0) continue;
          Pack<size> of_row{};
          for (std::int64_t column = columns.begin; column < columns.end; ++column) {
            const float weight = weight_of(at.column, of.columns.source<float>(column));
            if (weight == 0) continue;
            const std::int64_t place = of.out.offset({at.sample, at.channel, row, column});
            const Pack<size> gradient = load_pack<E, size>(dy, place / size);
            for (int k = 0; k < size; ++k) of_row.at[k] += weight * gradient.at[k];
          }
          for (int k = 0; k < size; ++k) sum.at[k] += row_weight * of_row.at[k];
        }
        store_pack<E, size>(dx, i, sum);
      },
      queue);
}

template <typename E, int size>
Implementation resize(const Resizing& of, const Format& in, const Format& out) {
  return {.traits = {.inputs = {in}, .output = out, .backward_reads_inputs = false, .backward_reads_output = false},
          .forward = [=](const Arguments& call) { interpolate<E, size>(of, call.inputs[0], call.output, call.queue); },
          .backward =
              [=](const Arguments& call) {
                void* dx = call.input_gradients[0];
                if (dx != nullptr) gather_gradients<E, size>(of, call.output_gradient, dx, call.queue);
              }};
}

}  // namespace

Implementation make(const Resize& op, Formats in, const Signature& signature) {
  const Format out = nhwc(signature.output, in[0].dtype);
  return with_packs(in[0],
                    [&](auto e, auto size) { return resize<decltype(e), size>(Resizing(op, in[0], out), in[0], out); });
}

}  // namespace lockstep::ops::cuda
