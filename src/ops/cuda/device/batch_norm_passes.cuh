// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"
#include "ops/cuda/device/batch_norm.cuh"
#include "ops/cuda/device/batch_statistics.cuh"

/// What the operators with a batch norm have in common: where everything lies, and the statistics of channels.
namespace lockstep::ops::cuda {

template <SignOf sign>
using Sign = std::integral_constant<SignOf, sign>;

/// Batch norm reads x once for its statistics, unless a convolution gives them, and once to normalize it; in backward
/// it reads x and dy once for two sums and once for dx. Saved are the mean and the inverse deviation of each channel,
/// if synchronized the two sums of this rank, and of an activation behind a residual the `PassingBits`. The workspace
/// holds the sums of parts, then the means of `GradientMeans`. An operator with two batch norms has everything that
/// belongs to channels twice, and one more sum of its gradients.
template <typename E, int size>
struct BatchNormPasses {
  BatchNorm op;
  int norm;  ///< which of the operator's batch norms, and the input that it normalizes
  TensorView view;
  PackTiles tiles;

  BatchNormPasses(const BatchNorm& of, const Format& x, int which)
      : op(of), norm(which), view(view_of(x)), tiles(view, size) {}

  [[nodiscard]] std::int64_t channels() const { return view.channels; }
  [[nodiscard]] std::int64_t saved_numbers() const { return op.synchronized ? 4 : 2; }
  [[nodiscard]] int gradient_sums() const { return 1 + static_cast<int>(op.norms()); }
  [[nodiscard]] std::int64_t exchanged() const { return op.synchronized ? 3 * op.norms() * channels() : 0; }
  [[nodiscard]] bool keeps_passing() const { return op.residual && op.activation != Activation::none; }
  [[nodiscard]] Bytes saved() const {
    const std::int64_t passing = keeps_passing() ? tiles.rows * tiles.packs : 0;
    return {op.norms() * saved_numbers() * channels() * static_cast<std::int64_t>(sizeof(float)) + passing};
  }
  [[nodiscard]] Bytes workspace() const {
    return {partial_sums(tiles, size, gradient_sums()).value +
            2 * op.norms() * channels() * static_cast<std::int64_t>(sizeof(float))};
  }
  [[nodiscard]] float* saved(const Arguments& call, std::int64_t which) const {
    return static_cast<float*>(call.saved) + (norm * saved_numbers() + which) * channels();
  }
  [[nodiscard]] PassingBits* passing(const Arguments& call) const {
    if (!keeps_passing()) return nullptr;
    return reinterpret_cast<PassingBits*>(static_cast<float*>(call.saved) + op.norms() * saved_numbers() * channels());
  }
  [[nodiscard]] double* partials(const Arguments& call) const { return static_cast<double*>(call.workspace); }
  [[nodiscard]] GradientMeans means(const Arguments& call) const {
    auto* first = reinterpret_cast<float*>(partials(call) + gradient_sums() * size * tiles.parts * tiles.packs) +
                  2 * norm * channels();
    return {first, first + channels()};
  }
  /// The index of the weights or the running means of this batch norm, which is followed by that of the biases or
  /// the running variances.
  [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(2 * norm); }
  [[nodiscard]] const void* input(const Arguments& call) const { return call.inputs[static_cast<std::size_t>(norm)]; }
  /// The lines of the batch's statistics.
  [[nodiscard]] LineSource lines(const Arguments& call) const {
    return {.gamma = static_cast<const float*>(call.parameters[index()]),
            .beta = static_cast<const float*>(call.parameters[index() + 1]),
            .mean = saved(call, 0),
            .inverse_deviation = saved(call, 1),
            .channels = channels()};
  }
  /// The lines of the running statistics.
  [[nodiscard]] LineSource running_lines(const Arguments& call) const {
    return {.gamma = static_cast<const float*>(call.parameters[index()]),
            .beta = static_cast<const float*>(call.parameters[index() + 1]),
            .mean = static_cast<const float*>(call.state[index()]),
            .variance = static_cast<const float*>(call.state[index() + 1]),
            .epsilon = op.epsilon,
            .channels = channels()};
  }
  [[nodiscard]] PartMoments moments(const Arguments& call) const {
    return {.tiles = tiles, .stride = size * tiles.packs, .partials = partials(call)};
  }
  [[nodiscard]] PartSums gradients(const Arguments& call) const {
    return {.stride = size * tiles.packs, .partials = partials(call), .sums = gradient_sums(), .other = 1 + norm};
  }
  /// What the ranks have gathered of this batch norm.
  [[nodiscard]] const double* gathered(const Arguments& call) const {
    return call.parts.data() + 3 * norm * channels();
  }
  [[nodiscard]] std::int64_t ranks(const Arguments& call) const {
    return static_cast<std::int64_t>(call.parts.size()) / exchanged();
  }
  [[nodiscard]] double* part(const Arguments& call) const { return call.part + 3 * norm * channels(); }

  /// The moments of parts of x, those that a convolution has left or its own.
  [[nodiscard]] PartMoments sum_deviations(const Arguments& call) const {
    PartMoments of = moments(call);
    if (!call.parts.empty()) {
      of.partials = call.parts.data() + norm * static_cast<std::int64_t>(call.parts.size()) / op.norms();
    } else {
      sum_packs<size>(tiles, Deviations<E, size>{input(call), tiles.packs}, call.workspace, call.queue);
    }
    return of;
  }

  void measure(const Arguments& call) const {
    fold_channels(tiles.parts, channels(), WriteMoments{sum_deviations(call), part(call)}, call.queue);
  }

  /// Saves the batch's statistics, and updates the running ones.
  void find_statistics(const Arguments& call) const {
    UseMoments use{moments(call),
                   saved(call, 0),
                   saved(call, 1),
                   static_cast<float*>(call.state[index()]),
                   static_cast<float*>(call.state[index() + 1]),
                   op.momentum,
                   op.epsilon};
    if (op.synchronized) {
      use.stride = op.norms() * channels();
      use.gathered = gathered(call);
      fold_channels(ranks(call), channels(), use, call.queue);
    } else {
      static_cast<PartMoments&>(use) = sum_deviations(call);
      fold_channels(tiles.parts, channels(), use, call.queue);
    }
  }

  /// Writes the statistics of this rank's gradients.
  void write_gradients(const Arguments& call) const {
    const WriteGradients write{gradients(call), saved(call, 1), static_cast<double>(tiles.rows),
                               part(call),      saved(call, 2), saved(call, 3)};
    fold_channels(tiles.parts, channels(), write, call.queue);
  }

  /// Writes the gradients of the parameters, and the means, from the sums of this rank or of all.
  void use_gradients(const Arguments& call) const {
    auto* of_gamma = static_cast<float*>(call.parameter_gradients[index()]);
    auto* of_beta = static_cast<float*>(call.parameter_gradients[index() + 1]);
    if (op.synchronized) {
      const UseGatheredGradients use{
          op.norms() * channels(), gathered(call), saved(call, 2), saved(call, 3), of_gamma, of_beta, means(call)};
      fold_channels(ranks(call), channels(), use, call.queue);
    } else {
      const UseGradients use{gradients(call), saved(call, 1), of_gamma, of_beta, static_cast<double>(tiles.rows),
                             means(call)};
      fold_channels(tiles.parts, channels(), use, call.queue);
    }
  }
};

}  // namespace lockstep::ops::cuda
