// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// A factor whose extents of 1 are broadcast over those of the result.
struct Factor {
  TensorView view;
  TensorView out;
  bool whole;                 ///< whether nothing is broadcast, so that its elements are where those of the result are
  Divisor repeated_channels;  ///< number of channels of the result for each one of the factor
  Divisor repeated_columns;

  Factor(const Format& format, const Format& result)
      : view(view_of(format)),
        out(view_of(result)),
        whole(format.shape == result.shape),
        repeated_channels(view.channels == 1 ? out.channels : 1),
        repeated_columns(view.width == 1 ? std::int64_t{out.width} : 1) {}

  /// The place of the factor of an element of the result.
  [[nodiscard]] __device__ std::int64_t place(const Position& at) const {
    return view.offset({at.sample, view.channels == 1 ? 0 : at.channel, view.height == 1 ? 0 : at.row,
                        view.width == 1 ? 0 : at.column});
  }
  /// The factors of a pack of the result, which begins there.
  template <typename E, int size>
  [[nodiscard]] __device__ Pack<size> pack(const void* data, const Position& at) const {
    if (view.channels == out.channels) return load_pack<E, size>(data, place(at) / size);
    const float factor = load<E>(data, place(at));
    Pack<size> same;
    for (int k = 0; k < size; ++k) same.at[k] = factor;
    return same;
  }
  /// The number of elements of the result for each element of the factor.
  [[nodiscard]] std::int64_t uses() const {
    return out.channels / view.channels * (out.height / view.height) * (out.width / view.width);
  }
  /// The position in the result of use `i` of an element of the factor.
  [[nodiscard]] __device__ Position use(Position at, std::int64_t i) const {
    const Division column = divide(i, repeated_channels);
    const Division row = divide(column.quotient, repeated_columns);
    at.channel += column.remainder;
    at.column += row.remainder;
    at.row += row.quotient;
    return at;
  }
};

/// Writes a·b for each element of the result, with zeros in the padding.
template <typename E, int size>
void multiply(const Factor& of_a, const void* a, const Factor& of_b, const void* b, void* to, Queue queue) {
  const TensorView out = of_a.out;
  const bool whole = of_a.whole && of_b.whole;
  for_each(
      out.elements() / size,
      [=] __device__(std::int64_t i) {
        Pack<size> product;
        if (whole) {
          const Pack<size> first = load_pack<E, size>(a, i);
          const Pack<size> second = load_pack<E, size>(b, i);
          for (int k = 0; k < size; ++k) product.at[k] = first.at[k] * second.at[k];
        } else {
          const Position at = out.nhwc_position(i * size);
          const Pack<size> first = of_a.pack<E, size>(a, at);
          const Pack<size> second = of_b.pack<E, size>(b, at);
          for (int k = 0; k < size; ++k)
            product.at[k] = at.channel + k < out.channels ? first.at[k] * second.at[k] : 0.0F;
        }
        store_pack<E, size>(to, i, product);
      },
      queue);
}

/// Sums dy·other over all uses of each element of a factor.
template <typename E>
void sum_uses(const Factor& own, const Factor& of_other, const void* dy, const void* other, void* gradient,
              const Arguments& call) {
  sum_rows<double>(
      own.uses(), own.view.elements(),
      [=] __device__(std::int64_t i, std::int64_t element) {
        const Position first = own.view.nhwc_position(element);
        if (first.channel >= own.view.channels) return 0.0;
        const Position at = own.use(first, i);
        return static_cast<double>(load<E>(dy, own.out.offset(at)) * load<E>(other, of_other.place(at)));
      },
      [=] __device__(std::int64_t element, double sum) { store<E>(gradient, element, static_cast<float>(sum)); },
      call.workspace, call.queue);
}

Bytes workspace_of(const Factor& factor) {
  if (factor.whole) return {};
  return {RowParts(factor.uses(), factor.view.elements()).partials() * static_cast<std::int64_t>(sizeof(double))};
}

template <typename E, int size>
Implementation product(Formats in, const Format& out) {
  const Factor first(in[0], out);
  const Factor second(in[1], out);
  const Factor whole(out, out);
  const auto backward = [=](const Factor& own, const Factor& of_other, const void* other, void* gradient,
                            const Arguments& call) {
    if (gradient == nullptr) return;
    if (own.whole) return multiply<E, size>(whole, call.output_gradient, of_other, other, gradient, call.queue);
    sum_uses<E>(own, of_other, call.output_gradient, other, gradient, call);
  };
  return {.traits = {.inputs = {in[0], in[1]},
                     .output = out,
                     .workspace = std::max(workspace_of(first), workspace_of(second)),
                     .backward_reads_output = false},
          .forward =
              [=](const Arguments& call) {
                multiply<E, size>(first, call.inputs[0], second, call.inputs[1], call.output, call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                backward(first, second, call.inputs[1], call.input_gradients[0], call);
                backward(second, first, call.inputs[0], call.input_gradients[1], call);
              }};
}

}  // namespace

Implementation make(const Multiply& /*op*/, Formats in, const Signature& signature) {
  const Format out = nhwc(signature.output, in[0].dtype);
  return with_packs(out, [&](auto e, auto size) { return product<decltype(e), size>(in, out); });
}

}  // namespace lockstep::ops::cuda
