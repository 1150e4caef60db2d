// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "ops/cuda/device/channels.cuh"
#include "ops/formulas/functions.hpp"

/// The functions that the kernels of batch norm compute: `sum_packs` makes sums for each channel, `fold_channels` turns
/// them into statistics, and `for_each_pack` goes over the elements again.
namespace lockstep::ops::cuda {

/// The line that is applied to a channel's values: (x − mean)·scale + beta. In the padding all are zero.
struct Line {
  float mean;
  float scale;
  float beta;
  [[nodiscard]] __device__ float at(float x) const { return (x - mean) * scale + beta; }
};
template <int size>
struct PackLines {
  Line of[size];
};

struct LineSource {
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* inverse_deviation;  ///< null: `variance`
  const float* variance;
  double epsilon;
  std::int64_t channels;

  [[nodiscard]] __device__ Line line(std::int64_t c) const {
    if (c >= channels) return {0, 0, 0};
    return {mean[c], gamma[c] * deviation(c), beta[c]};
  }
  [[nodiscard]] __device__ float deviation(std::int64_t c) const {
    if (inverse_deviation != nullptr) return inverse_deviation[c];
    return static_cast<float>(1 / std::sqrt(static_cast<double>(variance[c]) + epsilon));
  }
  template <int size>
  __device__ PackLines<size> lines(std::int64_t pack) const {
    PackLines<size> lines;
    for (int k = 0; k < size; ++k) lines.of[k] = line(pack * size + k);
    return lines;
  }
};

template <typename E, int size>
struct Normalize {
  const void* x;
  const void* residual;  ///< may be null
  void* y;
  LineSource source;
  Activation activation;

  __device__ PackLines<size> constants(std::int64_t pack) const { return source.template lines<size>(pack); }
  __device__ void operator()(std::int64_t i, const PackLines<size>& lines) const {
    Pack<size> values = load_pack<E, size>(x, i);
    for (int k = 0; k < size; ++k) values.at[k] = lines.of[k].at(values.at[k]);
    if (residual != nullptr) {
      const Pack<size> added = load_pack<E, size>(residual, i);
      for (int k = 0; k < size; ++k) values.at[k] += added.at[k];
    }
    for (int k = 0; k < size; ++k) values.at[k] = activated(activation, values.at[k]);
    store_pack<E, size>(y, i, values);
  }
};

/// The gradient before the activation. With a residual the sign of the activation's input is found from the result;
/// otherwise that input is computed again from x.
template <typename E, int size>
struct Gradient {
  const void* dy;
  const void* second;  ///< a second summand; may be null
  const void* y;       ///< null: from x
  Activation activation;

  __device__ Pack<size> at(std::int64_t i, const Pack<size>& values, const PackLines<size>& lines) const {
    Pack<size> gradient = load_pack<E, size>(dy, i);
    if (second != nullptr) {
      const Pack<size> added = load_pack<E, size>(second, i);
      for (int k = 0; k < size; ++k) gradient.at[k] = E::widen(E::narrow(gradient.at[k] + added.at[k]));
    }
    if (activation == Activation::none) return gradient;
    Pack<size> result = values;
    if (y != nullptr) result = load_pack<E, size>(y, i);
    for (int k = 0; k < size; ++k)
      if (!passes(activation, y != nullptr ? result.at[k] : lines.of[k].at(values.at[k]))) gradient.at[k] = 0;
    return gradient;
  }
};

/// The sums of the gradients, and of their products with the deviations.
template <typename E, int size>
struct GradientSums {
  const void* x;
  Gradient<E, size> gradient;
  void* keep;  ///< gets the gradient before the activation; may be null, or dy
  LineSource source;
  using Constants = PackLines<size>;

  __device__ Constants constants(std::int64_t pack, std::int64_t /*first_row*/) const {
    return source.template lines<size>(pack);
  }
  __device__ void add(std::int64_t i, const Constants& lines, float (&sums)[2][size]) const {
    const Pack<size> values = load_pack<E, size>(x, i);
    const Pack<size> g = gradient.at(i, values, lines);
    if (keep != nullptr) store_pack<E, size>(keep, i, g);
    for (int k = 0; k < size; ++k) {
      sums[0][k] += g.at[k];
      sums[1][k] += g.at[k] * (values.at[k] - lines.of[k].mean);
    }
  }
  __device__ void finish(int /*k*/, const Constants& /*lines*/, std::int64_t /*count*/, double (&/*sums*/)[2]) const {}
};

/// The means that the gradient of x subtracts, by channel.
struct GradientMeans {
  float* dy;
  float* dy_x;
  __device__ void set(std::int64_t channel, double sum_dy, double sum_dy_x, double count) const {
    dy[channel] = static_cast<float>(sum_dy / count);
    dy_x[channel] = static_cast<float>(sum_dy_x / count);
  }
};

/// Writes the gradients of the parameters, and the means.
struct UseGradients : PartSums {
  const float* inverse_deviation;
  float* of_gamma;
  float* of_beta;
  double count;
  GradientMeans means;
  __device__ void finish(std::int64_t channel, const Total& sums) const {
    const double dy_x = sums.second * static_cast<double>(inverse_deviation[channel]);
    of_gamma[channel] = static_cast<float>(dy_x);
    of_beta[channel] = static_cast<float>(sums.first);
    means.set(channel, sums.first, dy_x, count);
  }
};

/// Writes local statistics of the gradients, and keeps them for the parameters.
struct WriteGradients : PartSums {
  const float* inverse_deviation;
  double count;
  double* part;
  float* own_dy;
  float* own_dy_x;
  __device__ void finish(std::int64_t channel, const Total& sums) const {
    part[3 * channel] = sums.first;
    part[3 * channel + 1] = sums.second * static_cast<double>(inverse_deviation[channel]);
    part[3 * channel + 2] = count;
    own_dy[channel] = static_cast<float>(sums.first);
    own_dy_x[channel] = static_cast<float>(part[3 * channel + 1]);
  }
};

/// Writes the gradients of the parameters from this rank's sums, and the means of all ranks.
struct UseGatheredGradients {
  struct Total {
    double dy;
    double dy_x;
    double count;
  };
  std::int64_t channels;
  const double* gathered;
  const float* own_dy;
  const float* own_dy_x;
  float* of_gamma;
  float* of_beta;
  GradientMeans means;
  __device__ Total at(std::int64_t part, std::int64_t channel) const {
    const double* of = gathered + 3 * (part * channels + channel);
    return {of[0], of[1], of[2]};
  }
  static __device__ Total join(const Total& a, const Total& b) {
    return {a.dy + b.dy, a.dy_x + b.dy_x, a.count + b.count};
  }
  __device__ void finish(std::int64_t channel, const Total& all) const {
    of_gamma[channel] = own_dy_x[channel];
    of_beta[channel] = own_dy[channel];
    means.set(channel, all.dy, all.dy_x, all.count);
  }
};

/// dx = scale·(g − mean of g − x̂·mean of g·x̂).
template <typename E, int size>
struct InputGradient {
  const void* x;
  Gradient<E, size> gradient;
  void* dx;
  void* d_residual;  ///< gets a copy of the gradient before the activation; may be null
  LineSource source;
  GradientMeans means;

  struct Constants {
    PackLines<size> lines;
    float mean[size];
    float slope[size];
  };
  __device__ Constants constants(std::int64_t pack) const {
    Constants of{source.template lines<size>(pack), {}, {}};
    for (int k = 0; k < size; ++k) {
      const std::int64_t c = pack * size + k;
      if (c >= source.channels) continue;
      of.mean[k] = means.dy[c];
      of.slope[k] = means.dy_x[c] * source.inverse_deviation[c];
    }
    return of;
  }
  __device__ void operator()(std::int64_t i, const Constants& of) const {
    const Pack<size> values = load_pack<E, size>(x, i);
    const Pack<size> g = gradient.at(i, values, of.lines);
    if (d_residual != nullptr) store_pack<E, size>(d_residual, i, g);
    if (dx == nullptr) return;
    Pack<size> result;
    for (int k = 0; k < size; ++k) {
      const Line& line = of.lines.of[k];
      result.at[k] = line.scale * (g.at[k] - of.mean[k] - (values.at[k] - line.mean) * of.slope[k]);
    }
    store_pack<E, size>(dx, i, result);
  }
};

}  // namespace lockstep::ops::cuda
