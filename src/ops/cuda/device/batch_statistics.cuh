// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "ops/cuda/device/channels.cuh"
#include "ops/formulas/moments.hpp"

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

/// The moments from sums that a convolution has made, in place of the sums of a part. Where a channel's mean is further
/// than four deviations from the shift, the sums of squares have lost too many digits, and the values are read after
/// all: in the first steps of a run, whose running mean is still 0.
template <typename E, int size>
struct CheckedDeviations {
  Deviations<E, size> values;
  const float* shift;
  const float* deviations;
  const float* squares;
  std::int64_t rows;
  std::int64_t channels;

  struct Constants {
    std::int64_t pack;
    Pack<size> first;
    bool is_far;  ///< whether any channel of the pack is
  };
  struct MeanAndVariance {
    double mean;
    double variance;
    bool is_far;
  };

  /// NaN is not far, and stays.
  __device__ MeanAndVariance of_channel(std::int64_t c) const {
    const auto count = static_cast<double>(rows);
    const double apart = static_cast<double>(deviations[c]) / count;
    const double variance = static_cast<double>(squares[c]) / count - apart * apart;
    return {static_cast<double>(shift[c]) + apart, variance < 0 ? 0 : variance, apart * apart > 16 * variance};
  }
  __device__ Constants constants(std::int64_t pack, std::int64_t first_row) const {
    Constants of{.pack = pack};
    for (int k = 0; k < size; ++k)
      if (pack * size + k < channels) of.is_far = of.is_far || of_channel(pack * size + k).is_far;
    if (of.is_far) of.first = values.constants(pack, first_row);
    return of;
  }
  __device__ void add(std::int64_t i, const Constants& of, float (&sums)[2][size]) const {
    if (of.is_far) values.add(i, of.first, sums);
  }
  __device__ void finish(int k, const Constants& of, std::int64_t count, double (&sums)[2]) const {
    const std::int64_t c = of.pack * size + k;
    if (c >= channels) return;
    const MeanAndVariance channel = of_channel(c);
    if (channel.is_far) return values.finish(k, of.first, count, sums);
    sums[0] = channel.mean;
    sums[1] = channel.variance * static_cast<double>(count);
  }
};

/// The moments of parts: those of this GPU's positions, or those that ranks have gathered.
struct PartMoments {
  using Total = Moments;
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
