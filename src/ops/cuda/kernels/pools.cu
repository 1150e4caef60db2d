// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/functions.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The windows of a pool along an axis, without padding.
struct AxisWindows {
  Divisor extent;
  Divisor count;
  std::int64_t kernel;  ///< 0: windows that adapt to the extent
  Divisor stride;
  std::int64_t padding;

  AxisWindows(std::int64_t elements, std::int64_t windows, std::int64_t kernel_extent = 0, std::int64_t step = 0,
              std::int64_t zeros = 0)
      : extent(elements), count(windows), kernel(kernel_extent), stride(step), padding(zeros) {}

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t begin(std::int64_t window) const {
    if (kernel == 0) return divide(window * extent, count).quotient;
    const std::int64_t begin = window * stride - padding;
    return begin < 0 ? 0 : begin;
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t end(std::int64_t window) const {
    if (kernel == 0) return divide((window + 1) * extent + count - 1, count).quotient;
    const std::int64_t end = window * stride - padding + kernel;
    return end < extent ? end : extent;
  }
  /// The first and the last window that an element is in; there is none if the last comes before the first.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t first_of(std::int64_t element) const {
    if (kernel == 0) return divide(element * count, extent).quotient;
    const std::int64_t behind = element + padding - kernel;  // the last start of a window that ends before the element
    return behind < 0 ? 0 : divide(behind, stride).quotient + 1;
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t last_of(std::int64_t element) const {
    const std::int64_t last =
        kernel == 0 ? divide((element + 1) * count - 1, extent).quotient : divide(element + padding, stride).quotient;
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

/// The place of a window's largest element, counted row by row from the window's first element.
struct MaxIndex {
  using Stored = std::uint16_t;
};

/// The packs of a tensor: a thread takes one, so that it finds its position once for all channels of it.
template <typename E, int size>
struct Packs {
  TensorView view;
  Divisor of_position;

  explicit Packs(const TensorView& tensor) : view(tensor), of_position(tensor.padded / size) {}
  [[nodiscard]] std::int64_t count() const { return view.positions() * of_position; }
  /// The index of a pack.
  [[nodiscard]] __device__ std::int64_t index(std::int64_t sample, std::int64_t row, std::int64_t column,
                                              std::int64_t pack) const {
    return ((sample * view.height + row) * view.width + column) * of_position + pack;
  }
  /// Writes a pack, with zeros in the padding.
  __device__ void write(void* data, std::int64_t i, std::int64_t pack, Pack<size> values) const {
    for (int k = 0; k < size; ++k)
      if (pack * size + k >= view.channels) values.at[k] = 0;
    store_pack<E, size>(data, i, values);
  }
};

/// Overwrites the result, and the places unless they are null.
template <typename E, int size>
void take_largest(const Packs<E, size>& x, const Packs<E, size>& y, const Windows& windows, Activation activation,
                  const Arguments& call, void* places) {
  const void* in = call.inputs[0];
  void* out = call.output;
  for_each(
      y.count(),
      [=] __device__(std::int64_t i) {
        const Division pixel = divide(i, y.of_position);
        const Position at = y.view.first_channel(pixel.quotient);
        const std::int64_t top = windows.rows.begin(at.row);
        const std::int64_t left = windows.columns.begin(at.column);
        const std::int64_t bottom = windows.rows.end(at.row);
        const std::int64_t right = windows.columns.end(at.column);
        Pack<size> best = load_pack<E, size>(in, x.index(at.sample, top, left, pixel.remainder));
        StoredPack<MaxIndex, size> place{};
        std::uint16_t here = 0;
        for (std::int64_t row = top; row < bottom; ++row) {
          for (std::int64_t column = left; column < right; ++column, ++here) {
            const auto values = load_pack<E, size>(in, x.index(at.sample, row, column, pixel.remainder));
            for (int k = 0; k < size; ++k) {
              const float value = values.at[k];
              if (!(value > best.at[k] || value != value)) continue;
              best.at[k] = value;
              place.at[k] = here;
            }
          }
        }
        for (int k = 0; k < size; ++k) best.at[k] = activated(activation, best.at[k]);
        y.write(out, i, pixel.remainder, best);
        if (places != nullptr) static_cast<StoredPack<MaxIndex, size>*>(places)[i] = place;
      },
      call.queue);
}

template <typename E, int size>
void pass_to_largest(const Packs<E, size>& x, const Packs<E, size>& y, const Windows& windows, Activation activation,
                     const Arguments& call) {
  const void* out = call.output;
  const void* dy = call.output_gradient;
  const auto* places = static_cast<const StoredPack<MaxIndex, size>*>(call.saved);
  void* dx = call.input_gradients[0];
  for_each(
      x.count(),
      [=] __device__(std::int64_t i) {
        const Division pixel = divide(i, x.of_position);
        const Position at = x.view.first_channel(pixel.quotient);
        Pack<size> sum{};
        for (std::int64_t row = windows.rows.first_of(at.row); row <= windows.rows.last_of(at.row); ++row) {
          for (std::int64_t column = windows.columns.first_of(at.column); column <= windows.columns.last_of(at.column);
               ++column) {
            const std::int64_t left = windows.columns.begin(column);
            const std::int64_t width = windows.columns.end(column) - left;
            const std::int64_t here = (at.row - windows.rows.begin(row)) * width + at.column - left;
            const std::int64_t o = y.index(at.sample, row, column, pixel.remainder);
            const StoredPack<MaxIndex, size> place = places[o];
            const auto gradient = load_pack<E, size>(dy, o);
            Pack<size> result{};
            if (activation != Activation::none) result = load_pack<E, size>(out, o);
            for (int k = 0; k < size; ++k)
              if (place.at[k] == here && (activation == Activation::none || passes(activation, result.at[k])))
                sum.at[k] += gradient.at[k];
          }
        }
        x.write(dx, i, pixel.remainder, sum);
      },
      call.queue);
}

template <typename E, int size>
Implementation max_pool(const Format& in, const Format& result, const Windows& windows, Activation activation) {
  const Packs<E, size> x(view_of(in));
  const Packs<E, size> y(view_of(result));
  return {.traits = {.inputs = {in},
                     .output = result,
                     .saved = {y.view.elements() * static_cast<std::int64_t>(sizeof(std::uint16_t))},
                     .backward_reads_inputs = false,
                     .backward_reads_output = activation != Activation::none},
          .forward = [=](const Arguments& call) { take_largest(x, y, windows, activation, call, call.saved); },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] != nullptr) pass_to_largest(x, y, windows, activation, call);
              },
          .infer = [=](const Arguments& call) { take_largest(x, y, windows, activation, call, nullptr); }};
}

template <typename E, int size>
void average(const Packs<E, size>& x, const Packs<E, size>& y, const Windows& windows, const Arguments& call) {
  const void* in = call.inputs[0];
  void* out = call.output;
  for_each(
      y.count(),
      [=] __device__(std::int64_t i) {
        const Division pixel = divide(i, y.of_position);
        const Position at = y.view.first_channel(pixel.quotient);
        double sums[size] = {};
        const std::int64_t bottom = windows.rows.end(at.row);
        const std::int64_t right = windows.columns.end(at.column);
        for (std::int64_t row = windows.rows.begin(at.row); row < bottom; ++row) {
          for (std::int64_t column = windows.columns.begin(at.column); column < right; ++column) {
            const auto values = load_pack<E, size>(in, x.index(at.sample, row, column, pixel.remainder));
            for (int k = 0; k < size; ++k) sums[k] += static_cast<double>(values.at[k]);
          }
        }
        const auto divisor = static_cast<double>(windows.size(at.row, at.column));
        Pack<size> averages;
        for (int k = 0; k < size; ++k) averages.at[k] = static_cast<float>(sums[k] / divisor);
        y.write(out, i, pixel.remainder, averages);
      },
      call.queue);
}

template <typename E, int size>
void spread(const Packs<E, size>& x, const Packs<E, size>& y, const Windows& windows, const Arguments& call) {
  const void* dy = call.output_gradient;
  void* dx = call.input_gradients[0];
  for_each(
      x.count(),
      [=] __device__(std::int64_t i) {
        const Division pixel = divide(i, x.of_position);
        const Position at = x.view.first_channel(pixel.quotient);
        Pack<size> sum{};
        for (std::int64_t row = windows.rows.first_of(at.row); row <= windows.rows.last_of(at.row); ++row) {
          for (std::int64_t column = windows.columns.first_of(at.column); column <= windows.columns.last_of(at.column);
               ++column) {
            const auto gradient = load_pack<E, size>(dy, y.index(at.sample, row, column, pixel.remainder));
            const auto divisor = static_cast<float>(windows.size(row, column));
            for (int k = 0; k < size; ++k) sum.at[k] += gradient.at[k] / divisor;
          }
        }
        x.write(dx, i, pixel.remainder, sum);
      },
      call.queue);
}

template <typename E, int size>
Implementation average_pool(const Format& in, const Format& result, const Windows& windows) {
  const Packs<E, size> x(view_of(in));
  const Packs<E, size> y(view_of(result));
  return {.traits = {.inputs = {in}, .output = result, .backward_reads_inputs = false, .backward_reads_output = false},
          .forward = [=](const Arguments& call) { average(x, y, windows, call); },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] != nullptr) spread(x, y, windows, call);
              }};
}

Implementation average_of(const Format& in, const Signature& signature, const Windows& windows) {
  return with_packs(in, [&](auto e, auto size) {
    return average_pool<decltype(e), size>(in, nhwc(signature.output, in.dtype), windows);
  });
}

Windows adaptive(const Shape& in, const Shape& out) { return {{in.height, out.height}, {in.width, out.width}}; }

}  // namespace

Implementation make(const MaxPool& op, Formats in, const Signature& signature) {
  if (op.kernel.area() > 65535) {
    throw Error(ErrorCode::unsupported, "a max pool with windows of " + std::to_string(op.kernel.area()) +
                                            " elements on a GPU; there may be 65535");
  }
  return with_packs(in[0], [&](auto e, auto size) {
    return max_pool<decltype(e), size>(in[0], nhwc(signature.output, in[0].dtype),
                                       windows_of(op, in[0].shape, signature.output), op.activation);
  });
}

Implementation make(const AveragePool& op, Formats in, const Signature& signature) {
  Windows windows = windows_of(op, in[0].shape, signature.output);
  windows.divisor = op.count_include_pad ? op.kernel.area() : 0;
  return average_of(in[0], signature, windows);
}

Implementation make(const GlobalAveragePool& /*op*/, Formats in, const Signature& signature) {
  return average_of(in[0], signature, adaptive(in[0].shape, signature.output));
}

Implementation make(const AdaptiveAveragePool& /*op*/, Formats in, const Signature& signature) {
  return average_of(in[0], signature, adaptive(in[0].shape, signature.output));
}

}  // namespace lockstep::ops::cuda
