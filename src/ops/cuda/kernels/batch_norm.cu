// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/batch_norm_passes.cuh"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// Batch norm of one input, to which a residual may be added.
template <typename E, int size>
struct OneBatchNorm : BatchNormPasses<E, size> {
  using Passes = BatchNormPasses<E, size>;
  using Passes::op, Passes::tiles, Passes::lines, Passes::means, Passes::passing, Passes::use_gradients;

  OneBatchNorm(const BatchNorm& of, const Format& x) : Passes(of, x, 0) {}

  void forward(const Arguments& call) const {
    Passes::find_statistics(call);
    normalize(call, lines(call), passing(call));
  }

  void infer(const Arguments& call) const { normalize(call, Passes::running_lines(call), nullptr); }

  void normalize(const Arguments& call, const LineSource& source, PassingBits* kept) const {
    const auto submit = [&]<bool has_residual>(std::bool_constant<has_residual>) {
      with_activation(op.activation, [&](auto activation) {
        const Normalize<E, size, has_residual, activation> body{.x = call.inputs[0],
                                                                .residual = has_residual ? call.inputs[1] : nullptr,
                                                                .y = call.output,
                                                                .passing = kept,
                                                                .source = source};
        for_each_pack(tiles, body, call.queue);
      });
    };
    op.residual ? submit(std::true_type{}) : submit(std::false_type{});
  }

  /// Sums the gradients before the activation, and writes them to `keep` unless it is null.
  void sum_gradients(const Arguments& call, void* keep) const {
    const auto submit = [&]<SignOf sign, bool has_second>(Sign<sign>, std::bool_constant<has_second>) {
      using Of = Gradient<E, size, sign, has_second>;
      const Of gradient{call.output_gradient, call.second_output_gradient, passing(call)};
      sum_packs<size>(tiles, GradientSums<E, size, Of>{call.inputs[0], gradient, keep, lines(call)}, call.workspace,
                      call.queue);
    };
    const auto with_sign = [&](auto has_second) {
      if (Passes::keeps_passing()) return submit(Sign<SignOf::kept>{}, has_second);
      with_activation(op.activation, [&](auto of) { submit(Sign<sign_of_input(of)>{}, has_second); });
    };
    call.second_output_gradient != nullptr ? with_sign(std::true_type{}) : with_sign(std::false_type{});
  }

  void measure_backward(const Arguments& call) const {
    const bool changes = call.second_output_gradient != nullptr || op.activation != Activation::none;
    sum_gradients(call, changes ? call.output_gradient : nullptr);
    Passes::write_gradients(call);
  }

  void backward(const Arguments& call) const {
    void* const dy = call.output_gradient;
    void* const d_residual = op.residual ? call.input_gradients[1] : nullptr;
    if (op.synchronized) {
      use_gradients(call);
      input_gradient(call, dy, Activation::none, d_residual == dy ? nullptr : d_residual);
      return;
    }
    // The gradient of the residual is that before the activation. To write it once saves reading its terms again.
    const bool has_terms = call.second_output_gradient != nullptr || (op.residual && op.activation != Activation::none);
    void* keep = has_terms ? dy : nullptr;
    if (d_residual != nullptr && (has_terms || d_residual != dy)) keep = d_residual;
    sum_gradients(call, keep);
    use_gradients(call);
    const Activation left = keep == nullptr ? op.activation : Activation::none;
    input_gradient(call, keep == nullptr ? dy : keep, left, nullptr);
  }

  /// @param activation  what dy is still the gradient of the result of
  void input_gradient(const Arguments& call, const void* dy, Activation activation, void* d_residual) const {
    void* const dx = call.input_gradients[0];
    if (dx == nullptr && d_residual == nullptr) return;
    with_activation(activation, [&](auto of) {
      const InputGradient<E, size, Gradient<E, size, sign_of_input(of), false>> body{
          call.inputs[0], {.dy = dy}, dx, d_residual, lines(call), means(call)};
      for_each_pack(tiles, body, call.queue);
    });
  }
};

template <typename E, int size>
Implementation batch_norm(const BatchNorm& op, const Format& x) {
  const OneBatchNorm<E, size> passes(op, x);
  return {.traits = {.inputs = op.residual ? std::vector{x, x} : std::vector{x},
                     .output = x,
                     .saved = passes.saved(),
                     .workspace = passes.workspace(),
                     .backward_reads_first_input = true,
                     .backward_reads_output = false,
                     .recomputable = !op.residual,
                     .takes_two_gradients = op.residual || op.activation != Activation::none,
                     .in_place_gradient = op.residual ? 1 : 0,
                     .forward_part = passes.exchanged(),
                     .backward_part = passes.exchanged()},
          .forward = [=](const Arguments& call) { passes.forward(call); },
          .backward = [=](const Arguments& call) { passes.backward(call); },
          .infer = [=](const Arguments& call) { passes.infer(call); },
          .recompute = [=](const Arguments& call) { passes.normalize(call, passes.lines(call), nullptr); },
          .measure = [=](const Arguments& call) { passes.measure(call); },
          .measure_backward = [=](const Arguments& call) { passes.measure_backward(call); }};
}

/// Multiplies by a factor of the channel.
template <typename E, int size>
struct Scale {
  const void* from;
  void* to;
  const float* factors;
  std::int64_t channels;

  static constexpr int batch = 4;
  static constexpr int blocks_of_multiprocessor = 3;
  using Loaded = StoredPack<E, size>;
  __device__ Loaded load(std::int64_t i) const { return load_stored<E, size>(from, i); }
  __device__ Pack<size> constants(std::int64_t pack) const {
    Pack<size> of[1];
    load_channels({factors}, pack, channels, of);
    return of[0];
  }
  __device__ void operator()(std::int64_t i, const Loaded& loaded, const Pack<size>& factor) const {
    Pack<size> values = widened(loaded);
    for (int k = 0; k < size; ++k) values.at[k] *= factor.at[k];
    store_pack<E, size>(to, i, values);
  }
};

/// Saves the factor of each channel, because backward may not have the state.
void save_factors(const LineSource& source, float* factors, Queue queue) {
  for_each(
      source.channels, [=] __device__(std::int64_t c) { factors[c] = source.lines<1>(c).of[0].scale; }, queue);
}

template <typename E, int size>
Implementation frozen_batch_norm(const FrozenBatchNorm& op, const Format& x) {
  const PackTiles tiles(view_of(x), size);
  const std::int64_t channels = x.shape.channels;
  const auto source_of = [=](const Arguments& call) {
    const auto state = [&](std::size_t k) { return static_cast<const float*>(call.state[k]); };
    return LineSource{.gamma = state(0),
                      .beta = state(1),
                      .mean = state(2),
                      .variance = state(3),
                      .epsilon = op.epsilon,
                      .channels = channels};
  };
  const auto infer = [=](const Arguments& call) {
    using Frozen = Normalize<E, size, false, Activation::none>;
    for_each_pack(tiles, Frozen{.x = call.inputs[0], .y = call.output, .source = source_of(call)}, call.queue);
  };
  return {.traits = {.inputs = {x},
                     .output = x,
                     .saved = {channels * static_cast<std::int64_t>(sizeof(float))},
                     .backward_reads_inputs = false,
                     .backward_reads_output = false},
          .forward =
              [=](const Arguments& call) {
                infer(call);
                save_factors(source_of(call), static_cast<float*>(call.saved), call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                const Scale<E, size> scale{call.output_gradient, call.input_gradients[0],
                                           static_cast<const float*>(call.saved), channels};
                if (scale.to != nullptr) for_each_pack(tiles, scale, call.queue);
              },
          .infer = infer};
}

}  // namespace

Implementation make(const BatchNorm& op, Formats in, const Signature& signature) {
  if (op.normalizes_residual) return make_two_batch_norms(op, in);
  if (op.pool) return make_pooled_batch_norm(op, in, signature);
  return with_packs(in[0], [&](auto e, auto size) { return batch_norm<decltype(e), size>(op, in[0]); });
}

std::int64_t statistics_count(const Format& y) {
  return with_packs(y, [&](auto /*e*/, auto size) {
    return partial_sums(PackTiles(view_of(y), size), size).value / static_cast<std::int64_t>(sizeof(double));
  });
}

void write_statistics(const Format& y, const void* data, const ChannelSums& sums, const float* shift, double* to,
                      Queue queue) {
  with_packs(y, [&](auto e, auto size) {
    using E = decltype(e);
    const PackTiles tiles(view_of(y), size);
    const Deviations<E, size> values{data, tiles.packs};
    if (sums.deviations == nullptr) return sum_packs<size>(tiles, values, to, queue);
    for_each(y.shape.channels, MarkFarChannels{sums.deviations, sums.squares, tiles.rows}, queue);
    const CheckedDeviations<E, size> checked{values,       shift,      sums.deviations,
                                             sums.squares, tiles.rows, y.shape.channels};
    sum_packs<size>(tiles, checked, to, queue);
  });
}

Implementation make(const FrozenBatchNorm& op, Formats in, const Signature& /*signature*/) {
  return with_packs(in[0], [&](auto e, auto size) { return frozen_batch_norm<decltype(e), size>(op, in[0]); });
}

}  // namespace lockstep::ops::cuda
