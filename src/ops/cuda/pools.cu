// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.hpp"
#include "ops/cuda/functions.hpp"
#include "ops/cuda/implementation.hpp"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_view.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The windows of a pool along an axis, without padding.
struct AxisWindows {
  std::int64_t extent;
  std::int64_t count;
  std::int64_t kernel = 0;  ///< 0: windows that adapt to the extent
  std::int64_t stride = 0;
  std::int64_t padding = 0;

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t begin(std::int64_t window) const {
    if (kernel == 0) return window * extent / count;
    const std::int64_t begin = window * stride - padding;
    return begin < 0 ? 0 : begin;
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t end(std::int64_t window) const {
    if (kernel == 0) return ((window + 1) * extent + count - 1) / count;
    const std::int64_t end = window * stride - padding + kernel;
    return end < extent ? end : extent;
  }
  /// The first and the last window that an element is in; there is none if the last comes before the first.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t first_of(std::int64_t element) const {
    if (kernel == 0) return element * count / extent;
    const std::int64_t behind = element + padding - kernel;  // the last start of a window that ends before the element
    return behind < 0 ? 0 : behind / stride + 1;
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t last_of(std::int64_t element) const {
    const std::int64_t last = kernel == 0 ? ((element + 1) * count - 1) / extent : (element + padding) / stride;
    return last < count - 1 ? last : count - 1;
  }
};

struct Windows {
  AxisWindows rows;
  AxisWindows columns;
  std::int64_t divisor = 0;  ///< of an average; 0: the size of the window

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t size(std::int64_t row, std::int64_t column) const {
    if (divisor > 0) return divisor;
    return (rows.end(row) - rows.begin(row)) * (columns.end(column) - columns.begin(column));
  }
};

template <typename Pool>
Windows windows_of(const Pool& pool, const Shape& in, const Shape& out) {
  return {{in.height, out.height, pool.kernel.height, pool.stride.height, pool.padding.height},
          {in.width, out.width, pool.kernel.width, pool.stride.width, pool.padding.width}};
}

/// A window's largest element, and its place, counted row by row from the window's first element.
struct Largest {
  float value;
  std::uint16_t place;
};

template <typename E>
__device__ Largest largest(const TensorView& x, const Windows& windows, const void* in, const Position& at) {
  const std::int64_t top = windows.rows.begin(at.row);
  const std::int64_t left = windows.columns.begin(at.column);
  const std::int64_t width = windows.columns.end(at.column) - left;
  Largest best{load<E>(in, x.offset({at.sample, at.channel, top, left})), 0};
  for (std::int64_t row = top; row < windows.rows.end(at.row); ++row) {
    for (std::int64_t column = left; column < left + width; ++column) {
      const float value = load<E>(in, x.offset({at.sample, at.channel, row, column}));
      if (value > best.value || value != value)
        best = {value, static_cast<std::uint16_t>((row - top) * width + column - left)};
    }
  }
  return best;
}

/// Overwrites the result, and the places unless they are null.
template <typename E>
void take_largest(const TensorView& x, const TensorView& y, const Windows& windows, Activation activation,
                  const Arguments& call, std::uint16_t* places) {
  const void* in = call.inputs[0];
  void* out = call.output;
  for_each(
      y.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = y.nhwc_position(i);
        if (at.channel >= y.channels) return store<E>(out, i, 0.0F);
        const Largest best = largest<E>(x, windows, in, at);
        store<E>(out, i, activated(activation, best.value));
        if (places != nullptr) places[i] = best.place;
      },
      call.queue);
}

template <typename E>
void pass_to_largest(const TensorView& x, const TensorView& y, const Windows& windows, Activation activation,
                     const Arguments& call) {
  const void* out = call.output;
  const void* dy = call.output_gradient;
  const auto* places = static_cast<const std::uint16_t*>(call.saved);
  void* dx = call.input_gradients[0];
  for_each(
      x.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = x.nhwc_position(i);
        float sum = 0;
        for (std::int64_t row = windows.rows.first_of(at.row); row <= windows.rows.last_of(at.row); ++row) {
          for (std::int64_t column = windows.columns.first_of(at.column); column <= windows.columns.last_of(at.column);
               ++column) {
            const std::int64_t left = windows.columns.begin(column);
            const std::int64_t width = windows.columns.end(column) - left;
            const std::int64_t place = (at.row - windows.rows.begin(row)) * width + at.column - left;
            const std::int64_t o = y.offset({at.sample, at.channel, row, column});
            if (at.channel < x.channels && places[o] == place &&
                (activation == Activation::none || passes(activation, load<E>(out, o))))
              sum += load<E>(dy, o);
          }
        }
        store<E>(dx, i, sum);
      },
      call.queue);
}

template <typename E>
Implementation max_pool(const Format& in, const Format& result, const Windows& windows, Activation activation) {
  const TensorView x = view_of(in);
  const TensorView y = view_of(result);
  return {.traits = {.inputs = {in},
                     .output = result,
                     .saved = {y.elements() * static_cast<std::int64_t>(sizeof(std::uint16_t))},
                     .backward_reads_inputs = false,
                     .backward_reads_output = activation != Activation::none},
          .forward =
              [=](const Arguments& call) {
                take_largest<E>(x, y, windows, activation, call, static_cast<std::uint16_t*>(call.saved));
              },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] != nullptr) pass_to_largest<E>(x, y, windows, activation, call);
              },
          .infer = [=](const Arguments& call) { take_largest<E>(x, y, windows, activation, call, nullptr); }};
}

template <typename E>
void average(const TensorView& x, const TensorView& y, const Windows& windows, const Arguments& call) {
  const void* in = call.inputs[0];
  void* out = call.output;
  for_each(
      y.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = y.nhwc_position(i);
        if (at.channel >= y.channels) return store<E>(out, i, 0.0F);
        double sum = 0;
        for (std::int64_t row = windows.rows.begin(at.row); row < windows.rows.end(at.row); ++row)
          for (std::int64_t column = windows.columns.begin(at.column); column < windows.columns.end(at.column);
               ++column)
            sum += static_cast<double>(load<E>(in, x.offset({at.sample, at.channel, row, column})));
        store<E>(out, i, static_cast<float>(sum / static_cast<double>(windows.size(at.row, at.column))));
      },
      call.queue);
}

template <typename E>
void spread(const TensorView& x, const TensorView& y, const Windows& windows, const Arguments& call) {
  const void* dy = call.output_gradient;
  void* dx = call.input_gradients[0];
  for_each(
      x.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = x.nhwc_position(i);
        float sum = 0;
        for (std::int64_t row = windows.rows.first_of(at.row); row <= windows.rows.last_of(at.row); ++row)
          for (std::int64_t column = windows.columns.first_of(at.column); column <= windows.columns.last_of(at.column);
               ++column)
            sum += load<E>(dy, y.offset({at.sample, at.channel, row, column})) /
                   static_cast<float>(windows.size(row, column));
        store<E>(dx, i, at.channel < x.channels ? sum : 0.0F);
      },
      call.queue);
}

template <typename E>
Implementation average_pool(const Format& in, const Format& result, const Windows& windows) {
  const TensorView x = view_of(in);
  const TensorView y = view_of(result);
  return {.traits = {.inputs = {in}, .output = result, .backward_reads_inputs = false, .backward_reads_output = false},
          .forward = [=](const Arguments& call) { average<E>(x, y, windows, call); },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] != nullptr) spread<E>(x, y, windows, call);
              }};
}

Implementation average_of(const Format& in, const Signature& signature, const Windows& windows) {
  return with_elements(
      in.dtype, [&](auto e) { return average_pool<decltype(e)>(in, nhwc(signature.output, in.dtype), windows); });
}

Windows adaptive(const Shape& in, const Shape& out) { return {{in.height, out.height}, {in.width, out.width}}; }

}  // namespace

Implementation make(const MaxPool& op, std::span<const Format> in, const Signature& signature) {
  if (op.kernel.area() > 65535) {
    throw Error(ErrorCode::unsupported, "a max pool with windows of " + std::to_string(op.kernel.area()) +
                                            " elements on a GPU; there may be 65535");
  }
  return with_elements(in[0].dtype, [&](auto e) {
    return max_pool<decltype(e)>(in[0], nhwc(signature.output, in[0].dtype),
                                 windows_of(op, in[0].shape, signature.output), op.activation);
  });
}

Implementation make(const AveragePool& op, std::span<const Format> in, const Signature& signature) {
  Windows windows = windows_of(op, in[0].shape, signature.output);
  windows.divisor = op.count_include_pad ? op.kernel.area() : 0;
  return average_of(in[0], signature, windows);
}

Implementation make(const GlobalAveragePool& /*op*/, std::span<const Format> in, const Signature& signature) {
  return average_of(in[0], signature, adaptive(in[0].shape, signature.output));
}

Implementation make(const AdaptiveAveragePool& /*op*/, std::span<const Format> in, const Signature& signature) {
  return average_of(in[0], signature, adaptive(in[0].shape, signature.output));
}

}  // namespace lockstep::ops::cuda
