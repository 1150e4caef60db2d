// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// A part of a larger tensor along an axis, in which it begins at an index.
struct Part {
  TensorView whole;
  TensorView part;
  Axis axis;
  std::int64_t begin;

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t in_whole(Position at) const {
    if (axis == Axis::channels) at.channel += begin;
    if (axis == Axis::height) at.row += begin;
    if (axis == Axis::width) at.column += begin;
    return whole.offset(at);
  }
  /// The place along the axis.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t along(const Position& at) const {
    return axis == Axis::channels ? at.channel : (axis == Axis::height ? at.row : at.column);
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t extent() const {
    return axis == Axis::channels ? part.channels : (axis == Axis::height ? part.height : part.width);
  }
};

/// Calls `f` with the type of the elements and the size of packs, which are all of one part, as an integral constant.
template <typename F>
auto with_packs_of(DType dtype, std::span<const Part> parts, const F& f) {
  const auto has_packs_of = [parts](int size) {
    return std::all_of(parts.begin(), parts.end(), [size](const Part& p) {
      const std::int64_t first = p.axis == Axis::channels ? p.begin : 0;
      return first % size == 0 && p.part.channels % size == 0 && p.whole.padded % size == 0;
    });
  };
  return with_elements(dtype, [&](auto e) {
    constexpr int size = 16 / sizeof(typename decltype(e)::Stored);
    if (has_packs_of(size)) return f(e, std::integral_constant<int, size>{});
    return f(e, std::integral_constant<int, 1>{});
  });
}

template <typename E, int size>
void take(const Part& p, const void* whole, void* part, Queue queue) {
  for_each(
      p.part.elements() / size,
      [=] __device__(std::int64_t i) {
        const Position at = p.part.nhwc_position(i * size);
        StoredPack<E, size> pack{};
        if (at.channel < p.part.channels) pack = load_stored<E, size>(whole, p.in_whole(at) / size);
        static_cast<StoredPack<E, size>*>(part)[i] = pack;
      },
      queue);
}

template <typename E, int size>
void put(const Part& p, const void* part, void* whole, Queue queue) {
  for_each(
      p.part.elements() / size,
      [=] __device__(std::int64_t i) {
        const Position at = p.part.nhwc_position(i * size);
        if (at.channel < p.part.channels)
          static_cast<StoredPack<E, size>*>(whole)[p.in_whole(at) / size] = load_stored<E, size>(part, i);
      },
      queue);
}

/// Overwrites the whole with the part, and with zeros beside it.
template <typename E, int size>
void place(const Part& p, const void* part, void* whole, Queue queue) {
  for_each(
      p.whole.elements() / size,
      [=] __device__(std::int64_t i) {
        Position at = p.whole.nhwc_position(i * size);
        const std::int64_t along = p.along(at) - p.begin;
        const bool inside = at.channel < p.whole.channels && along >= 0 && along < p.extent();
        if (p.axis == Axis::channels) at.channel = along;
        if (p.axis == Axis::height) at.row = along;
        if (p.axis == Axis::width) at.column = along;
        StoredPack<E, size> pack{};
        if (inside) pack = load_stored<E, size>(part, p.part.offset(at) / size);
        static_cast<StoredPack<E, size>*>(whole)[i] = pack;
      },
      queue);
}

/// Overwrites the padding of channels with zeros.
template <typename E>
void clear_padding(const TensorView& y, void* data, Queue queue) {
  const Divisor padding(y.padded - y.channels);
  for_each(
      y.positions() * padding,
      [=] __device__(std::int64_t i) {
        const Division at = divide(i, padding);
        store<E>(data, at.quotient * y.padded + y.channels + at.remainder, 0.0F);
      },
      queue);
}

template <typename E, int size>
Implementation concat(Formats in, const Format& result, const std::vector<Part>& parts) {
  return {.traits = {.inputs = {in.begin(), in.end()},
                     .output = result,
                     .backward_reads_inputs = false,
                     .backward_reads_output = false},
          .forward =
              [parts](const Arguments& call) {
                for (std::size_t i = 0; i < parts.size(); ++i)
                  put<E, size>(parts[i], call.inputs[i], call.output, call.queue);
                clear_padding<E>(parts.front().whole, call.output, call.queue);
              },
          .backward =
              [parts](const Arguments& call) {
                for (std::size_t i = 0; i < parts.size(); ++i)
                  if (call.input_gradients[i] != nullptr)
                    take<E, size>(parts[i], call.output_gradient, call.input_gradients[i], call.queue);
              }};
}

template <typename E, int size>
Implementation slice(const Format& in, const Format& result, const Part& part) {
  return {.traits = {.inputs = {in}, .output = result, .backward_reads_inputs = false, .backward_reads_output = false},
          .forward = [=](const Arguments& call) { take<E, size>(part, call.inputs[0], call.output, call.queue); },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] != nullptr)
                  place<E, size>(part, call.output_gradient, call.input_gradients[0], call.queue);
              }};
}

/// An order of a sample's elements: a tensor's axes, and for each of them its distance in plain order.
struct Order {
  std::int64_t channel;
  std::int64_t row;
  std::int64_t column;
};

/// Element (c, h, w) of `to` is the element of `from` at this distance in plain order from the sample's beginning.
template <typename E>
void rearrange(const TensorView& from, const TensorView& to, const Order& order, const void* in, void* out,
               Queue queue) {
  for_each(
      to.elements(),
      [=] __device__(std::int64_t i) {
        const Position at = to.nhwc_position(i);
        if (at.channel >= to.channels) return store<E>(out, i, 0.0F);
        const std::int64_t plain = at.channel * order.channel + at.row * order.row + at.column * order.column;
        store<E>(out, i, load<E>(in, from.offset(from.plain_position(at.sample, plain))));
      },
      queue);
}

template <typename E>
Implementation rearranged(const Format& in, const Format& result, const Order& there, const Order& back) {
  const TensorView x = view_of(in);
  const TensorView y = view_of(result);
  return {.traits = {.inputs = {in}, .output = result, .backward_reads_inputs = false, .backward_reads_output = false},
          .forward = [=](const Arguments& call) { rearrange<E>(x, y, there, call.inputs[0], call.output, call.queue); },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] != nullptr)
                  rearrange<E>(y, x, back, call.output_gradient, call.input_gradients[0], call.queue);
              }};
}

Order plain_order(const Shape& shape) { return {shape.height * shape.width, shape.width, 1}; }

}  // namespace

Implementation make(const Concat& op, Formats in, const Signature& signature) {
  const Format result = nhwc(signature.output, in[0].dtype);
  std::vector<Part> parts;
  std::int64_t begin = 0;
  for (const Format& format : in) {
    parts.push_back({view_of(result), view_of(format), op.axis, begin});
    begin += parts.back().extent();
  }
  return with_packs_of(in[0].dtype, parts,
                       [&](auto e, auto size) { return concat<decltype(e), size>(in, result, parts); });
}

Implementation make(const Slice& op, Formats in, const Signature& signature) {
  const Format result = nhwc(signature.output, in[0].dtype);
  const Part part{view_of(in[0]), view_of(result), op.axis, op.begin};
  return with_packs_of(in[0].dtype, {&part, 1},
                       [&](auto e, auto size) { return slice<decltype(e), size>(in[0], result, part); });
}

Implementation make(const Reshape& /*op*/, Formats in, const Signature& signature) {
  return with_elements(in[0].dtype, [&](auto e) {
    return rearranged<decltype(e)>(in[0], nhwc(signature.output, in[0].dtype), plain_order(signature.output),
                                   plain_order(in[0].shape));
  });
}

Implementation make(const Permute& op, Formats in, const Signature& signature) {
  const Order of_input = plain_order(in[0].shape);
  const Order of_output = plain_order(signature.output);
  const std::array<std::int64_t, 3> from{of_input.channel, of_input.row, of_input.column};
  const std::array<std::int64_t, 3> to{of_output.channel, of_output.row, of_output.column};
  std::array<std::int64_t, 3> there{};
  std::array<std::int64_t, 3> back{};
  for (std::size_t i = 0; i < op.order.size(); ++i) {
    there[i] = from[static_cast<std::size_t>(op.order[i])];
    back[static_cast<std::size_t>(op.order[i])] = to[i];
  }
  return with_elements(in[0].dtype, [&](auto e) {
    return rearranged<decltype(e)>(in[0], nhwc(signature.output, in[0].dtype), {there[0], there[1], there[2]},
                                   {back[0], back[1], back[2]});
  });
}

}  // namespace lockstep::ops::cuda
