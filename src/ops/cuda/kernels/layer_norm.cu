// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/channels.cuh"
#include "ops/cuda/device/norm_runs.cuh"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

template <typename E, int size>
struct NormalizeRuns {
  NormRuns runs;
  const void* x;
  void* y;
  const float* weights;
  const float* biases;
  Standardization* saved;  ///< may be null

  __device__ void operator()(std::int64_t index, bool exists, const Team<size>& team) const {
    const NormRun run(runs, index);
    const float shift = load<E>(x, run.first);
    TwoSums sums{0, 0};
    run.for_each(team, [&](std::int64_t i, std::int64_t /*weight*/) {
      const auto deviation = static_cast<double>(load<E>(x, i) - shift);
      sums = sums + TwoSums{deviation, deviation * deviation};
    });
    sums = team.sum(sums);
    const auto length = static_cast<double>(runs.length());
    const double apart = sums.first / length;
    const double variance = fmax(sums.second / length - apart * apart, 0.0);
    const Standardization moments{static_cast<double>(shift) + apart, 1 / std::sqrt(variance + runs.epsilon)};
    if (!exists) return;
    if (team.lane == 0 && saved != nullptr) saved[index] = moments;
    run.for_each_in_memory(team, [&](std::int64_t i, std::int64_t weight) {
      store<E>(y, i, weight < 0 ? 0.0F : moments.normal(load<E>(x, i)) * weights[weight] + biases[weight]);
    });
  }
};

/// dx = (g − mean of g − x̂·mean of g·x̂) ÷ deviation, with g = dy·weight.
template <typename E, int size>
struct RunGradients {
  NormRuns runs;
  const void* x;
  const void* dy;
  void* dx;
  const float* weights;
  const Standardization* saved;

  __device__ void operator()(std::int64_t index, bool exists, const Team<size>& team) const {
    const NormRun run(runs, index);
    const Standardization moments = saved[index];
    TwoSums sums{0, 0};
    run.for_each(team, [&](std::int64_t i, std::int64_t weight) {
      const float g = load<E>(dy, i) * weights[weight];
      sums = sums + TwoSums{static_cast<double>(g), static_cast<double>(g * moments.normal(load<E>(x, i)))};
    });
    sums = team.sum(sums);
    if (!exists) return;
    const auto length = static_cast<double>(runs.length());
    const auto mean_g = static_cast<float>(sums.first / length);
    const auto mean_g_x = static_cast<float>(sums.second / length);
    const auto factor = static_cast<float>(moments.inverse_deviation);
    run.for_each_in_memory(team, [&](std::int64_t i, std::int64_t weight) {
      const float g = weight < 0 ? 0.0F : load<E>(dy, i) * weights[weight];
      store<E>(dx, i, weight < 0 ? 0.0F : factor * (g - mean_g - moments.normal(load<E>(x, i)) * mean_g_x));
    });
  }
};

/// The sums of dy and of dy·x̂ for weights of channels.
template <typename E, int size>
struct ChannelGradients {
  NormRuns runs;
  const void* x;
  const void* dy;
  const Standardization* saved;

  static constexpr int sums_of_channel = 2;
  static constexpr int batch = 1;
  static constexpr int blocks_of_multiprocessor = 2;
  struct Constants {
    std::int64_t groups[size];
  };
  struct Loaded {
    StoredPack<E, size> x;
    StoredPack<E, size> dy;
  };
  __device__ Constants constants(std::int64_t pack, std::int64_t /*first_row*/) const {
    Constants of;
    for (int k = 0; k < size; ++k)
      of.groups[k] = min((pack * size + k) / runs.channels(), runs.groups - 1);  // the padding has a group, too
    return of;
  }
  __device__ Loaded load(std::int64_t i) const { return {load_stored<E, size>(x, i), load_stored<E, size>(dy, i)}; }
  __device__ void add(std::int64_t i, const Loaded& loaded, const Constants& of, float (&sums)[2][size]) const {
    const Pack<size> values = widened(loaded.x);
    const Pack<size> gradients = widened(loaded.dy);
    const std::int64_t first_run = i * size / (runs.view.padded * runs.positions) * runs.groups;
    for (int k = 0; k < size; ++k) {
      sums[0][k] += gradients.at[k];
      sums[1][k] += gradients.at[k] * saved[first_run + of.groups[k]].normal(values.at[k]);
    }
  }
  __device__ void finish(int /*k*/, const Constants& /*of*/, std::int64_t /*count*/, double (&/*sums*/)[2]) const {}
};
struct WriteChannelGradients : PartSums {
  float* of_weights;
  float* of_biases;
  __device__ void finish(std::int64_t channel, const Total& sums) const {
    of_weights[channel] = static_cast<float>(sums.second);
    of_biases[channel] = static_cast<float>(sums.first);
  }
};

template <typename E, int size>
void sum_channel_gradients(const NormRuns& runs, const Arguments& call) {
  const PackTiles tiles(runs.view, size);
  const ChannelGradients<E, size> of{runs, call.inputs[0], call.output_gradient,
                                     static_cast<const Standardization*>(call.saved)};
  sum_packs<size>(tiles, of, call.workspace, call.queue);
  const WriteChannelGradients write{{size * tiles.packs, static_cast<const double*>(call.workspace)},
                                    static_cast<float*>(call.parameter_gradients[0]),
                                    static_cast<float*>(call.parameter_gradients[1])};
  fold_channels(tiles.parts, runs.view.channels, write, call.queue);
}

/// Sums the gradients of weights of a sample's elements over the samples.
template <typename E>
void sum_element_gradients(const NormRuns& runs, const Arguments& call) {
  const TensorView view = runs.view;
  const void* x = call.inputs[0];
  const void* dy = call.output_gradient;
  const auto* saved = static_cast<const Standardization*>(call.saved);
  auto* of_weights = static_cast<float*>(call.parameter_gradients[0]);
  auto* of_biases = static_cast<float*>(call.parameter_gradients[1]);
  sum_rows<TwoSums>(
      view.samples, view.sample_stride,
      [=] __device__(std::int64_t sample, std::int64_t element) {
        const std::int64_t i = sample * view.sample_stride + element;
        const float gradient = load<E>(dy, i);
        return TwoSums{static_cast<double>(gradient),
                       static_cast<double>(gradient * saved[sample].normal(load<E>(x, i)))};
      },
      [=] __device__(std::int64_t element, const TwoSums& sums) {
        const Position at = view.nhwc_position(element);
        if (at.channel >= view.channels) return;
        of_weights[view.plain_index(at)] = static_cast<float>(sums.second);
        of_biases[view.plain_index(at)] = static_cast<float>(sums.first);
      },
      call.workspace, call.queue);
}

template <typename E, int size>
void normalize_runs(const NormRuns& runs, const Arguments& call, void* saved) {
  const NormalizeRuns<E, size> body{runs,
                                    call.inputs[0],
                                    call.output,
                                    static_cast<const float*>(call.parameters[0]),
                                    static_cast<const float*>(call.parameters[1]),
                                    static_cast<Standardization*>(saved)};
  for_each_run<size>(runs.count(), body, call.queue);
}

template <typename E, int size>
void run_gradients(const NormRuns& runs, const Arguments& call) {
  const RunGradients<E, size> body{runs,
                                   call.inputs[0],
                                   call.output_gradient,
                                   call.input_gradients[0],
                                   static_cast<const float*>(call.parameters[0]),
                                   static_cast<const Standardization*>(call.saved)};
  if (body.dx != nullptr) for_each_run<size>(runs.count(), body, call.queue);
}

template <typename E, int pack_size>
Implementation run_norm(const NormRuns& runs, const Format& x) {
  const bool is_long = runs.length() > 1024;
  const auto normalize = [=](const Arguments& call, void* saved) {
    is_long ? normalize_runs<E, 256>(runs, call, saved) : normalize_runs<E, 32>(runs, call, saved);
  };
  const std::int64_t element_sums = RowParts(runs.view.samples, runs.view.sample_stride).partials();
  const Bytes of_elements{element_sums * static_cast<std::int64_t>(sizeof(TwoSums))};
  return {
      .traits = {.inputs = {x},
                 .output = x,
                 .saved = {runs.count() * static_cast<std::int64_t>(sizeof(Standardization))},
                 .workspace = runs.of_elements ? of_elements : partial_sums(PackTiles(runs.view, pack_size), pack_size),
                 .backward_reads_output = false},
      .forward = [=](const Arguments& call) { normalize(call, call.saved); },
      .backward =
          [=](const Arguments& call) {
            is_long ? run_gradients<E, 256>(runs, call) : run_gradients<E, 32>(runs, call);
            runs.of_elements ? sum_element_gradients<E>(runs, call) : sum_channel_gradients<E, pack_size>(runs, call);
          },
      .infer = [=](const Arguments& call) { normalize(call, nullptr); }};
}

Implementation make_run_norm(const NormRuns& runs, const Format& x) {
  return with_packs(x, [&](auto e, auto size) { return run_norm<decltype(e), size>(runs, x); });
}

}  // namespace

Implementation make(const LayerNorm& op, Formats in, const Signature& /*signature*/) {
  const TensorView view = view_of(in[0]);
  const bool of_channels = op.axes == LayerNorm::Axes::channels;
  return make_run_norm({.view = view,
                        .blocks = of_channels ? view.positions() : view.samples,
                        .positions = of_channels ? 1 : view.height * view.width,
                        .groups = 1,
                        .of_elements = !of_channels,
                        .epsilon = op.epsilon},
                       in[0]);
}

Implementation make(const GroupNorm& op, Formats in, const Signature& /*signature*/) {
  const TensorView view = view_of(in[0]);
  return make_run_norm({.view = view,
                        .blocks = view.samples,
                        .positions = view.height * view.width,
                        .groups = op.groups,
                        .of_elements = false,
                        .epsilon = op.epsilon},
                       in[0]);
}

}  // namespace lockstep::ops::cuda
