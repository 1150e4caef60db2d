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

  template <int size>
  __device__ PackLines<size> lines(std::int64_t pack) const {
    const bool is_inverse = inverse_deviation != nullptr;
    Pack<size> numbers[4];
    load_channels({gamma, beta, mean, is_inverse ? inverse_deviation : variance}, pack, channels, numbers);
    PackLines<size> lines{};
    for (int k = 0; k < size; ++k) {
      if (pack * size + k >= channels) break;
      float deviation = numbers[3].at[k];
      if (!is_inverse) deviation = static_cast<float>(1 / std::sqrt(static_cast<double>(deviation) + epsilon));
      lines.of[k] = {numbers[2].at[k], numbers[0].at[k] * deviation, numbers[1].at[k]};
    }
    return lines;
  }
};

/// For each pack a bit for each of its values: whether the gradient passes the activation. To read it in backward takes
/// a sixteenth of the time that reading 16-bit results takes.
using PassingBits = std::uint8_t;

/// Calls `f` with the activation as an integral constant, so that kernels do not ask for it at each element.
template <typename F>
void with_activation(Activation activation, const F& f) {
  if (activation == Activation::relu) return f(std::integral_constant<Activation, Activation::relu>{});
  if (activation == Activation::relu6) return f(std::integral_constant<Activation, Activation::relu6>{});
  f(std::integral_constant<Activation, Activation::none>{});
}

/// Stores pack `i` of the activation's results, and unless `passing` is null its bits.
template <typename E, Activation activation, int size>
__device__ void store_activated(Pack<size> values, std::int64_t i, void* y, PassingBits* passing) {
  for (int k = 0; k < size; ++k) values.at[k] = activated(activation, values.at[k]);
  const StoredPack<E, size> stored = narrowed<E, size>(values);
  static_cast<StoredPack<E, size>*>(y)[i] = stored;
  if (passing == nullptr) return;
  unsigned bits = 0;
  for (int k = 0; k < size; ++k) bits |= passes(activation, E::widen(stored.at[k])) ? 1U << k : 0U;
  passing[i] = static_cast<PassingBits>(bits);
}

template <typename E, int size, bool has_residual, Activation activation>
struct Normalize {
  const void* x;
  const void* residual;
  void* y;
  PassingBits* passing;  ///< may be null; only with a residual
  LineSource source;

  static constexpr int batch = 4;
  static constexpr int blocks_of_multiprocessor = 3;
  struct Loaded {
    StoredPack<E, size> x;
    StoredPack<E, has_residual ? size : 1> residual;
  };
  __device__ PackLines<size> constants(std::int64_t pack) const { return source.template lines<size>(pack); }
  __device__ Loaded load(std::int64_t i) const {
    Loaded loaded{};
    loaded.x = load_stored<E, size>(x, i);
    if constexpr (has_residual) loaded.residual = load_stored<E, size>(residual, i);
    return loaded;
  }
  __device__ void operator()(std::int64_t i, const Loaded& loaded, const PackLines<size>& lines) const {
    Pack<size> values = widened(loaded.x);
    for (int k = 0; k < size; ++k) values.at[k] = lines.of[k].at(values.at[k]);
    if constexpr (has_residual) {
      const Pack<size> added = widened(loaded.residual);
      for (int k = 0; k < size; ++k) values.at[k] += added.at[k];
    }
    store_activated<E, activation>(values, i, y, has_residual ? passing : nullptr);
  }
};

/// Where backward learns whether a gradient passes the activation.
enum class SignOf {
  none,         ///< there is no activation
  relu_input,   ///< from the ReLU's input, which is computed again from x
  relu6_input,  ///< the same for ReLU6
  kept,         ///< with a residual, from the bits that forward has kept
};
constexpr SignOf sign_of_input(Activation activation) {
  if (activation == Activation::none) return SignOf::none;
  return activation == Activation::relu ? SignOf::relu_input : SignOf::relu6_input;
}

/// The gradient before the activation.
template <typename E, int size, SignOf sign, bool has_second>
struct Gradient {
  const void* dy;
  const void* second;  ///< a second summand
  const PassingBits* passing;

  static constexpr int most_batch = 4;
  struct Loaded {
    StoredPack<E, size> dy;
    StoredPack<E, has_second ? size : 1> second;
    PassingBits passing;
  };
  __device__ Loaded load(std::int64_t i) const {
    Loaded loaded{};
    loaded.dy = load_stored<E, size>(dy, i);
    if constexpr (has_second) loaded.second = load_stored<E, size>(second, i);
    if constexpr (sign == SignOf::kept) loaded.passing = passing[i];
    return loaded;
  }
  __device__ Pack<size> of(const Loaded& loaded, const Pack<size>& values, const PackLines<size>& lines) const {
    Pack<size> gradient = widened(loaded.dy);
    if constexpr (has_second) {
      const Pack<size> added = widened(loaded.second);
      for (int k = 0; k < size; ++k) gradient.at[k] = E::widen(E::narrow(gradient.at[k] + added.at[k]));
    }
    if constexpr (sign == SignOf::kept) {
      for (int k = 0; k < size; ++k)
        if ((loaded.passing >> k & 1) == 0) gradient.at[k] = 0;
    } else if constexpr (sign != SignOf::none) {
      constexpr Activation activation = sign == SignOf::relu_input ? Activation::relu : Activation::relu6;
      for (int k = 0; k < size; ++k)
        if (!passes(activation, lines.of[k].at(values.at[k]))) gradient.at[k] = 0;
    }
    return gradient;
  }
};

/// The sums of the gradients, and of their products with the deviations.
/// @tparam Of  finds the gradient before the activation, as `Gradient`
template <typename E, int size, typename Of>
struct GradientSums {
  const void* x;
  Of gradient;
  void* keep;  ///< gets the gradient before the activation; may be null, or dy
  LineSource source;

  static constexpr int sums_of_channel = 2;
  static constexpr int batch = Of::most_batch < 2 ? Of::most_batch : 2;
  static constexpr int blocks_of_multiprocessor = 2;
  using Constants = PackLines<size>;
  struct Loaded {
    StoredPack<E, size> x;
    typename Of::Loaded gradient;
  };
  __device__ Constants constants(std::int64_t pack, std::int64_t /*first_row*/) const {
    return source.template lines<size>(pack);
  }
  __device__ Loaded load(std::int64_t i) const { return {load_stored<E, size>(x, i), gradient.load(i)}; }
  __device__ void add(std::int64_t i, const Loaded& loaded, const Constants& lines, float (&sums)[2][size]) const {
    const Pack<size> values = widened(loaded.x);
    const Pack<size> g = gradient.of(loaded.gradient, values, lines);
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
/// @tparam Of  as for `GradientSums`
template <typename E, int size, typename Of>
struct InputGradient {
  const void* x;
  Of gradient;
  void* dx;
  void* d_residual;  ///< gets a copy of the gradient before the activation; may be null
  LineSource source;
  GradientMeans means;

  static constexpr int batch = Of::most_batch;
  static constexpr int blocks_of_multiprocessor = 2;
  struct Loaded {
    StoredPack<E, size> x;
    typename Of::Loaded gradient;
  };
  struct Constants {
    PackLines<size> lines;
    float mean[size];
    float slope[size];
  };
  __device__ Constants constants(std::int64_t pack) const {
    Constants of{source.template lines<size>(pack), {}, {}};
    Pack<size> numbers[3];
    load_channels({means.dy, means.dy_x, source.inverse_deviation}, pack, source.channels, numbers);
    for (int k = 0; k < size; ++k) {
      of.mean[k] = numbers[0].at[k];
      of.slope[k] = numbers[1].at[k] * numbers[2].at[k];
    }
    return of;
  }
  __device__ Loaded load(std::int64_t i) const { return {load_stored<E, size>(x, i), gradient.load(i)}; }
  __device__ void operator()(std::int64_t i, const Loaded& loaded, const Constants& of) const {
    const Pack<size> values = widened(loaded.x);
    const Pack<size> g = gradient.of(loaded.gradient, values, of.lines);
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
