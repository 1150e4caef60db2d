// SPDX-License-Identifier: Apache-2.0
#include "base/split_mix.hpp"
#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/functions.hpp"

namespace lockstep::ops::cuda {
namespace {

/// Passes the gradient or replaces it by zero, so that a product does not turn an infinite gradient into a NaN.
struct ReluFunction {
  static constexpr bool by_output = true;
  __device__ float value(float x) const { return activated(Activation::relu, x); }
  __device__ float gradient(float dy, float y) const { return passes(Activation::relu, y) ? dy : 0.0F; }
};

/// Multiplies the gradient by the derivative.
template <typename Function>
struct Differentiated : Function {
  __device__ float gradient(float dy, float at) const { return dy * this->derivative(at); }
};

/// Overwrites a pack by what `f` returns for each of its elements.
template <typename E, int size, typename F, typename... In>
__device__ void store_each(void* out, std::int64_t i, const F& f, const In&... in) {
  Pack<size> values;
  for (int k = 0; k < size; ++k) values.at[k] = f(in.at[k]...);
  store_pack<E, size>(out, i, values);
}

template <typename E, int size, typename Function>
Implementation elementwise(const Format& x, const Function& function) {
  const std::int64_t packs = view_of(x).elements() / size;
  return {.traits = {.inputs = {x},
                     .output = x,
                     .backward_reads_inputs = !Function::by_output,
                     .backward_reads_output = Function::by_output},
          .forward =
              [=](const Arguments& call) {
                const void* in = call.inputs[0];
                void* out = call.output;
                for_each(
                    packs,
                    [=] __device__(std::int64_t i) {
                      store_each<E, size>(
                          out, i, [&](float value) { return function.value(value); }, load_pack<E, size>(in, i));
                    },
                    call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                const void* at = Function::by_output ? call.output : call.inputs[0];
                const void* dy = call.output_gradient;
                void* dx = call.input_gradients[0];
                if (dx == nullptr) return;
                for_each(
                    packs,
                    [=] __device__(std::int64_t i) {
                      store_each<E, size>(
                          dx, i, [&](float gradient, float value) { return function.gradient(gradient, value); },
                          load_pack<E, size>(dy, i), load_pack<E, size>(at, i));
                    },
                    call.queue);
              }};
}

template <typename E, int size>
Implementation add(const Format& x, Activation activation) {
  const std::int64_t packs = view_of(x).elements() / size;
  return {.traits = {.inputs = {x, x},
                     .output = x,
                     .backward_reads_inputs = false,
                     .backward_reads_output = activation != Activation::none,
                     .in_place_gradient = 0},
          .forward =
              [=](const Arguments& call) {
                const void* a = call.inputs[0];
                const void* b = call.inputs[1];
                void* out = call.output;
                for_each(
                    packs,
                    [=] __device__(std::int64_t i) {
                      store_each<E, size>(
                          out, i, [&](float first, float second) { return activated(activation, first + second); },
                          load_pack<E, size>(a, i), load_pack<E, size>(b, i));
                    },
                    call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                const void* y = call.output;
                const void* dy = call.output_gradient;
                void* first = call.input_gradients[0];
                void* second = call.input_gradients[1];
                for_each(
                    packs,
                    [=] __device__(std::int64_t i) {
                      Pack<size> gradient = load_pack<E, size>(dy, i);
                      if (activation != Activation::none) {
                        const Pack<size> result = load_pack<E, size>(y, i);
                        for (int k = 0; k < size; ++k)
                          if (!passes(activation, result.at[k])) gradient.at[k] = 0;
                      }
                      if (first != nullptr) store_pack<E, size>(first, i, gradient);
                      if (second != nullptr) store_pack<E, size>(second, i, gradient);
                    },
                    call.queue);
              }};
}

/// The key of one sample's mask, as the reference has it.
__device__ std::uint64_t mask_key(const RngKey& key, std::uint64_t of_operator, std::int64_t sample) {
  std::uint64_t mixed = split_mix::mix(key.seed + split_mix::golden_ratio);
  mixed = split_mix::mix(mixed + (static_cast<std::uint64_t>(key.step) + 1) * split_mix::golden_ratio);
  mixed = split_mix::mix(mixed + (of_operator + 1) * split_mix::golden_ratio);
  return split_mix::mix(mixed + (static_cast<std::uint64_t>(key.first_sample + sample) + 1) * split_mix::golden_ratio);
}

template <typename E, int size>
void drop(const TensorView& view, const Dropout& op, const void* in, void* out, const Arguments& call) {
  const RngKey* rng_key = call.rng_key;
  const double probability = op.probability;
  const std::uint64_t key = op.key;
  const auto scale = static_cast<float>(1 / (1 - probability));
  for_each(
      view.elements() / size,
      [=] __device__(std::int64_t i) {
        Position at = view.nhwc_position(i * size);
        const std::uint64_t of_sample = mask_key(*rng_key, key, at.sample);
        Pack<size> values = load_pack<E, size>(in, i);
        for (int k = 0; k < size; ++k, ++at.channel) {
          const auto place = static_cast<std::uint64_t>(view.plain_index(at) + 1);
          const std::uint64_t bits = split_mix::mix(of_sample + place * split_mix::golden_ratio);
          const bool kept = static_cast<double>(bits >> 11) * 0x1p-53 >= probability;
          values.at[k] = kept && at.channel < view.channels ? scale * values.at[k] : 0.0F;
        }
        store_pack<E, size>(out, i, values);
      },
      call.queue);
}

template <typename E, int size>
Implementation dropout(const Format& x, const Dropout& op) {
  const TensorView view = view_of(x);
  return {.traits = {.inputs = {x}, .output = x, .backward_reads_inputs = false, .backward_reads_output = false},
          .forward = [=](const Arguments& call) { drop<E, size>(view, op, call.inputs[0], call.output, call); },
          .backward =
              [=](const Arguments& call) {
                if (call.input_gradients[0] != nullptr)
                  drop<E, size>(view, op, call.output_gradient, call.input_gradients[0], call);
              },
          .infer =
              [=](const Arguments& call) {
                const void* in = call.inputs[0];
                void* out = call.output;
                for_each(
                    view.elements() / size,
                    [=] __device__(std::int64_t i) { store_pack<E, size>(out, i, load_pack<E, size>(in, i)); },
                    call.queue);
              }};
}

template <typename E, int size>
void bias_and_activation(const TensorView& y, void* data, const float* bias, Activation activation, Queue queue) {
  const Divisor of_position(y.padded / size);
  for_each(
      y.positions() * of_position,
      [=] __device__(std::int64_t i) {
        const std::int64_t channel = divide(i, of_position).remainder * size;
        Pack<size> values = load_pack<E, size>(data, i);
        for (int k = 0; k < size; ++k) {
          const float added = bias != nullptr && channel + k < y.channels ? bias[channel + k] : 0.0F;
          values.at[k] = activated(activation, values.at[k] + added);
        }
        store_pack<E, size>(data, i, values);
      },
      queue);
}

template <typename E, int size>
void pass_activation(const TensorView& y, const void* result, void* gradient, Activation activation, Queue queue) {
  for_each(
      y.elements() / size,
      [=] __device__(std::int64_t i) {
        store_each<E, size>(
            gradient, i, [&](float own, float value) { return passes(activation, value) ? own : 0.0F; },
            load_pack<E, size>(gradient, i), load_pack<E, size>(result, i));
      },
      queue);
}

template <typename E>
void sum_each_channel(const TensorView& y, const void* data, float* sums, void* partials, Queue queue) {
  sum_rows<float>(
      y.positions(), y.channels,
      [=] __device__(std::int64_t row, std::int64_t channel) { return load<E>(data, row * y.padded + channel); },
      [=] __device__(std::int64_t channel, float sum) { sums[channel] = sum; }, partials, queue);
}

}  // namespace

Implementation make(const Relu& /*op*/, Formats in, const Signature& /*signature*/) {
  Implementation relu =
      with_packs(in[0], [&](auto e, auto size) { return elementwise<decltype(e), size>(in[0], ReluFunction{}); });
  relu.traits.in_place_gradient = 0;
  return relu;
}

Implementation make(const Add& op, Formats in, const Signature& /*signature*/) {
  return with_packs(in[0], [&](auto e, auto size) { return add<decltype(e), size>(in[0], op.activation); });
}

Implementation make(const Pointwise& op, Formats in, const Signature& /*signature*/) {
  return with_packs(in[0], [&](auto e, auto size) {
    return with_function<float>(op, [&](const auto& function) {
      return elementwise<decltype(e), size>(in[0], Differentiated<std::remove_cvref_t<decltype(function)>>{function});
    });
  });
}

Implementation make(const Dropout& op, Formats in, const Signature& /*signature*/) {
  return with_packs(in[0], [&](auto e, auto size) { return dropout<decltype(e), size>(in[0], op); });
}

void add_bias(const Format& y, void* data, const void* bias, Activation activation, Queue queue) {
  with_packs(y, [&](auto e, auto size) {
    bias_and_activation<decltype(e), size>(view_of(y), data, static_cast<const float*>(bias), activation, queue);
  });
}

void activation_backward(const Format& y, const void* result, void* gradient, Activation activation, Queue queue) {
  with_packs(y, [&](auto e, auto size) {
    pass_activation<decltype(e), size>(view_of(y), result, gradient, activation, queue);
  });
}

Bytes sum_channels_workspace(const Format& y) {
  const TensorView view = view_of(y);
  return {RowParts(view.positions(), view.channels).partials() * static_cast<std::int64_t>(sizeof(float))};
}

void sum_channels(const Format& y, const void* data, void* sums, void* workspace, Queue queue) {
  with_elements(y.dtype, [&](auto e) {
    sum_each_channel<decltype(e)>(view_of(y), data, static_cast<float*>(sums), workspace, queue);
  });
}

}  // namespace lockstep::ops::cuda
