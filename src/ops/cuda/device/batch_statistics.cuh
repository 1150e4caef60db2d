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

  static constexpr int sums_of_channel = 2;
  static constexpr int batch = 4;
  static constexpr int blocks_of_multiprocessor = 3;
  using Constants = Pack<size>;
  using Loaded = StoredPack<E, size>;

  __device__ Constants constants(std::int64_t pack, std::int64_t first_row) const {
    return load_pack<E, size>(x, first_row * packs + pack);
  }
  __device__ Loaded load(std::int64_t i) const { return load_stored<E, size>(x, i); }
  __device__ void add(std::int64_t /*i*/, const Loaded& loaded, const Constants& shift, float (&sums)[2][size]) const {
    const Pack<size> values = widened(loaded);
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

/// The sums of squares that a convolution has made become negative for channels whose mean is further than four
/// deviations from the shift: these sums have lost too many digits. NaN is not far, and stays.
struct MarkFarChannels {
  const float* deviations;
  float* squares;
  std::int64_t rows;
  __device__ void operator()(std::int64_t channel) const {
    const auto sum = static_cast<double>(deviations[channel]);
    const double spread = static_cast<double>(squares[channel]) * static_cast<double>(rows) - sum * sum;
    if (sum * sum > 16 * spread) squares[channel] = -1;
  }
};

/// The moments from sums that a convolution has made, in place of the sums of a part. The values of channels that
/// `MarkFarChannels` has marked are read after all: in the first steps of a run, whose running mean is still 0.
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

  static constexpr int sums_of_channel = Deviations<E, size>::sums_of_channel;
  static constexpr int batch = Deviations<E, size>::batch;
  static constexpr int blocks_of_multiprocessor = Deviations<E, size>::blocks_of_multiprocessor;
  using Loaded = StoredPack<E, size>;

  __device__ Constants constants(std::int64_t pack, std::int64_t first_row) const {
    Constants of{.pack = pack};
    Pack<size> marked[1];
    load_channels({squares}, pack, channels, marked);
    for (int k = 0; k < size; ++k) of.is_far = marked[0].at[k] < 0 || of.is_far;
    if (of.is_far) of.first = values.constants(pack, first_row);
    return of;
  }
  __device__ bool reads(const Constants& of) const { return of.is_far; }
  __device__ Loaded load(std::int64_t i) const { return values.load(i); }
  __device__ void add(std::int64_t i, const Loaded& loaded, const Constants& of, float (&sums)[2][size]) const {
    values.add(i, loaded, of.first, sums);
  }
  __device__ void finish(int k, const Constants& of, std::int64_t part, double (&sums)[2]) const {
    const std::int64_t c = of.pack * size + k;
    if (c >= channels) return;
    if (squares[c] < 0) return values.finish(k, of.first, part, sums);
    const auto count = static_cast<double>(rows);
    const double apart = static_cast<double>(deviations[c]) / count;
    const double variance = static_cast<double>(squares[c]) / count - apart * apart;
    sums[0] = static_cast<double>(shift[c]) + apart;
    sums[1] = (variance < 0 ? 0 : variance) * static_cast<double>(part);
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
