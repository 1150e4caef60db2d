// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/cuda/device/batch_norm.cuh"

/// The functions that the kernels of a sum of two batch norms compute. They round where two operators would.
namespace lockstep::ops::cuda {

template <typename E, int size, Activation activation>
struct NormalizeTwo {
  const void* inputs[2];
  void* y;
  PassingBits* passing;  ///< may be null
  LineSource sources[2];

  static constexpr int batch = 4;
  static constexpr int blocks_of_multiprocessor = 2;
  struct Constants {
    PackLines<size> first;
    PackLines<size> second;
  };
  struct Loaded {
    StoredPack<E, size> first;
    StoredPack<E, size> second;
  };
  __device__ Constants constants(std::int64_t pack) const {
    return {sources[0].template lines<size>(pack), sources[1].template lines<size>(pack)};
  }
  __device__ Loaded load(std::int64_t i) const {
    return {load_stored<E, size>(inputs[0], i), load_stored<E, size>(inputs[1], i)};
  }
  __device__ void operator()(std::int64_t i, const Loaded& loaded, const Constants& of) const {
    Pack<size> added = widened(loaded.second);
    for (int k = 0; k < size; ++k) added.at[k] = of.second.of[k].at(added.at[k]);
    added = widened(narrowed<E, size>(added));
    Pack<size> values = widened(loaded.first);
    for (int k = 0; k < size; ++k) values.at[k] = of.first.of[k].at(values.at[k]);
    for (int k = 0; k < size; ++k) values.at[k] += added.at[k];
    store_activated<E, activation>(values, i, y, passing);
  }
};

/// The sums of the gradients, and of their products with the deviations of either input.
template <typename E, int size, SignOf sign, bool has_second>
struct GradientSumsOfTwo {
  static_assert(sign == SignOf::none || sign == SignOf::kept, "the bits say what passes the activation");
  const void* inputs[2];
  Gradient<E, size, sign, has_second> gradient;
  void* keep;  ///< gets the gradient before the activation; may be null, or dy
  LineSource sources[2];

  static constexpr int sums_of_channel = 3;
  static constexpr int batch = 2;
  static constexpr int blocks_of_multiprocessor = 2;
  struct Constants {
    Pack<size> means[2];
  };
  struct Loaded {
    StoredPack<E, size> inputs[2];
    typename Gradient<E, size, sign, has_second>::Loaded gradient;
  };
  __device__ Constants constants(std::int64_t pack, std::int64_t /*first_row*/) const {
    Constants of;
    load_channels({sources[0].mean, sources[1].mean}, pack, sources[0].channels, of.means);
    return of;
  }
  __device__ Loaded load(std::int64_t i) const {
    return {{load_stored<E, size>(inputs[0], i), load_stored<E, size>(inputs[1], i)}, gradient.load(i)};
  }
  __device__ void add(std::int64_t i, const Loaded& loaded, const Constants& of, float (&sums)[3][size]) const {
    const Pack<size> g = gradient.of(loaded.gradient, {}, {});
    if (keep != nullptr) store_pack<E, size>(keep, i, g);
    for (int k = 0; k < size; ++k) sums[0][k] += g.at[k];
    for (int norm = 0; norm < 2; ++norm) {
      const Pack<size> values = widened(loaded.inputs[norm]);
      for (int k = 0; k < size; ++k) sums[1 + norm][k] += g.at[k] * (values.at[k] - of.means[norm].at[k]);
    }
  }
  __device__ void finish(int /*k*/, const Constants& /*of*/, std::int64_t /*count*/, double (&/*sums*/)[3]) const {}
};

/// The gradients of both inputs. @see InputGradient
template <typename E, int size, SignOf sign>
struct InputGradientsOfTwo {
  const void* inputs[2];
  Gradient<E, size, sign, false> gradient;
  void* of_inputs[2];  ///< may be null
  LineSource sources[2];
  GradientMeans means[2];

  static constexpr int batch = 2;
  static constexpr int blocks_of_multiprocessor = 2;
  struct Loaded {
    StoredPack<E, size> inputs[2];
    typename Gradient<E, size, sign, false>::Loaded gradient;
  };
  struct OfNorm {
    float mean[size];
    float scale[size];
    float slope[size];
  };
  struct Constants {
    float mean[size];  ///< of the gradients, which both have in common
    OfNorm of[2];
  };
  __device__ Constants constants(std::int64_t pack) const {
    const auto& [first, second] = sources;
    Pack<size> numbers[9];
    load_channels({first.mean, first.gamma, means[0].dy_x, first.inverse_deviation, second.mean, second.gamma,
                   means[1].dy_x, second.inverse_deviation, means[0].dy},
                  pack, first.channels, numbers);
    Constants result;
    for (int k = 0; k < size; ++k) {
      result.mean[k] = numbers[8].at[k];
      for (int norm = 0; norm < 2; ++norm) {
        const Pack<size>* of = numbers + 4 * norm;
        result.of[norm].mean[k] = of[0].at[k];
        result.of[norm].scale[k] = of[1].at[k] * of[3].at[k];
        result.of[norm].slope[k] = of[2].at[k] * of[3].at[k];
      }
    }
    return result;
  }
  __device__ Loaded load(std::int64_t i) const {
    return {{load_stored<E, size>(inputs[0], i), load_stored<E, size>(inputs[1], i)}, gradient.load(i)};
  }
  __device__ void operator()(std::int64_t i, const Loaded& loaded, const Constants& constants) const {
    const Pack<size> g = gradient.of(loaded.gradient, {}, {});
    for (int norm = 0; norm < 2; ++norm) {
      if (of_inputs[norm] == nullptr) continue;
      const OfNorm& of = constants.of[norm];
      Pack<size> values = widened(loaded.inputs[norm]);
      for (int k = 0; k < size; ++k)
        values.at[k] = of.scale[k] * (g.at[k] - constants.mean[k] - (values.at[k] - of.mean[k]) * of.slope[k]);
      store_pack<E, size>(of_inputs[norm], i, values);
    }
  }
};

}  // namespace lockstep::ops::cuda
