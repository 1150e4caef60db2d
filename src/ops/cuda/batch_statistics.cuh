// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "ops/cuda/channels.cuh"
#include "ops/moments.hpp"

/// The statistics of batch norm: `sum_packs` makes those of parts in one pass over x, and `fold_channels` merges them.
namespace lockstep::ops::cuda {

/// The deviations from a value of the channel, so that sums in float32 do not cancel far from zero.
template <typename E, int size>
struct Deviations {
  const void* x;
  std::int64_t packs;
  using Constants = Pack<size>;

  __device__ Constants constants(std::int64_t pack, std::int64_t first_row) const {
    return load_pack<E, size>(x, first_row * packs + pack);
  }
  __device__ void add(std::int64_t i, const Constants& shift, float (&sums)[2][size]) const {
    const Pack<size> values = load_pack<E, size>(x, i);
    for (int k = 0; k < size; ++k) {
      const float deviation = values.at[k] - shift.at[k];
      sums[0][k] += deviation;
      sums[1][k] += deviation * deviation;
    }
  }
  /// Turns the sums into the mean and the squared deviations from it.
  __device__ void finish(int k, const Constants& shift, std::int64_t count, double (&sums)[2]) const {
    const double apart = sums[0] / static_cast<double>(count);
    sums[1] = fmax(sums[1] - apart * sums[0], 0.0);
    sums[0] = static_cast<double>(shift.at[k]) + apart;
  }
};

/// Where the moments of parts are: those of this GPU's positions, or those that ranks have gathered.
struct PartMoments {
  using Value = Moments;
  PackTiles tiles;
  std::int64_t stride;  ///< number of channels of a part
  const double* partials;
  const double* gathered;  ///< null: `partials`

  __device__ Moments at(std::int64_t part, std::int64_t channel) const {
    const std::int64_t place = part * stride + channel;
    if (gathered != nullptr) return {gathered[3 * place], gathered[3 * place + 1], gathered[3 * place + 2]};
    const auto count = static_cast<double>(tiles.begin(part + 1) - tiles.begin(part));
    if (count == 0) return {};
    return {count, partials[2 * place], partials[2 * place + 1]};
  }
  static __device__ Moments join(const Moments& a, const Moments& b) { return merged(a, b); }
};

/// Writes local statistics.
struct WriteMoments : PartMoments {
  double* part;
  __device__ void finish(std::int64_t channel, const Moments& all) const {
    part[3 * channel] = all.count;
    part[3 * channel + 1] = all.mean;
    part[3 * channel + 2] = all.squares;
  }
};

/// Saves the mean and the inverse deviation, and updates the running statistics.
struct UseMoments : PartMoments {
  float* mean;
  float* inverse_deviation;
  float* running_mean;
  float* running_variance;
  double momentum;
  double epsilon;
  __device__ void finish(std::int64_t channel, const Moments& all) const {
    mean[channel] = static_cast<float>(all.mean);
    const double variance = all.count > 0 ? all.squares / all.count : 0;
    inverse_deviation[channel] = static_cast<float>(1 / std::sqrt(variance + epsilon));
    if (all.count == 0) return;
    // One value has no unbiased variance, so its biased variance, 0, is used.
    const double unbiased = all.squares / (all.count > 1 ? all.count - 1 : 1);
    update(running_mean[channel], all.mean);
    update(running_variance[channel], unbiased);
  }
  __device__ void update(float& running, double value) const {
    running = static_cast<float>((1 - momentum) * static_cast<double>(running) + momentum * value);
  }
};

}  // namespace lockstep::ops::cuda
