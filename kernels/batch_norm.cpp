// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernels/stored.hpp"

namespace lockstep::kernels {
namespace {

/// Maps integers to the finite floats and infinities in ascending order.
float at(std::int64_t place) {
  return std::copysign(std::bit_cast<float>(static_cast<std::uint32_t>(std::abs(place))), place < 0 ? -1.0F : 1.0F);
}
constexpr std::int64_t last_place = 0x7f800000;
std::int64_t index_of(float x) {
  const auto magnitude = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(std::abs(x)));
  return x < 0 ? -magnitude : magnitude;
}

/// @param reaches  whether a result reaches the level; if one does, all larger ones do
template <typename Reaches>
Threshold find_threshold(double scale, double shift, double level, const Reaches& reaches) {
  constexpr float nowhere = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto is_reached = [&](std::int64_t place) {
    return reaches(static_cast<float>(static_cast<double>(at(place)) * std::abs(scale) + shift));
  };
  const float direction = scale < 0 ? -1.0F : 1.0F;
  if (scale == 0) return {direction, reaches(static_cast<float>(shift)) ? -infinity : nowhere};
  const auto guess = static_cast<float>((level - shift) / std::abs(scale));
  if (!(std::abs(scale) < infinity) || std::isnan(guess)) return {direction, nowhere};
  // The search starts at the threshold in exact arithmetic, takes growing steps to both sides of it, and then bisects.
  std::int64_t above = index_of(guess);
  std::int64_t below = above;
  for (std::int64_t step = 1; above < last_place && !is_reached(above); step *= 2)
    above = std::min(above + step, last_place);
  if (!is_reached(above)) return {direction, nowhere};
  for (std::int64_t step = 1; below > -last_place && is_reached(below); step *= 2)
    below = std::max(below - step, -last_place);
  if (is_reached(below)) return {direction, -infinity};
  while (above - below > 1) {
    const std::int64_t middle = below + (above - below) / 2;
    (is_reached(middle) ? above : below) = middle;
  }
  return {direction, at(above)};
}

template <typename T>
struct SumChannels {
  const T* x;
  double* sum;
  double* squares;

  template <std::int64_t Lanes, std::int64_t register_bytes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    using Pack = Packs<T, Lanes, register_bytes>;
    using Doubles = typename Pack::Doubles;
    Doubles a[Pack::count];
    Doubles b[Pack::count];
    Pack::load_each(a, sum + block.channel);
    Pack::load_each(b, squares + block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const T* from = x + block.begin + p * block.stride;
      typename Pack::Floats in[Pack::count];
      prefetch_ahead(from);
      Pack::load(in, from);
      for (std::int64_t k = 0; k < Pack::count; ++k) {
        Doubles wide;
        Pack::widen(in[k], wide);
        a[k] += wide;
        b[k] += wide * wide;
      }
    }
    Pack::store_each(a, sum + block.channel);
    Pack::store_each(b, squares + block.channel);
  }
};

template <typename T, Clip With, bool Residual>
struct Normalize {
  ForwardCoefficients coefficients;
  const T* x;
  const T* residual;
  T* y;

  template <std::int64_t Lanes, std::int64_t register_bytes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    using Pack = Packs<T, Lanes, register_bytes>;
    using Floats = typename Pack::Floats;
    using Doubles = typename Pack::Doubles;
    Doubles scale[Pack::count];
    Doubles shift[Pack::count];
    Pack::load_each(scale, coefficients.scale + block.channel);
    Pack::load_each(shift, coefficients.shift + block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      Floats values[Pack::count];
      Floats more[Pack::count]{};
      Pack::load(values, x + i);
      if (Residual) Pack::load(more, residual + i);
      for (std::int64_t k = 0; k < Pack::count; ++k) {
        Doubles wide;
        Pack::widen(values[k], wide);
        values[k] = __builtin_convertvector(wide * scale[k] + shift[k], Floats);
        if (Residual) values[k] += more[k];
        if (With != Clip::none) values[k] = values[k] < 0 ? Floats{} : values[k];  // a NaN stays a NaN
        if (With == Clip::relu6) values[k] = values[k] > 6 ? Floats{} + 6 : values[k];
      }
      Pack::store(values, y + i);
    }
  }
};

template <Clip With, typename T>
LOCKSTEP_INLINE void normalize_with(const ChannelLayout& layout, const TensorPart& part,
                                    const ForwardCoefficients& coefficients, const T* x, const T* residual, T* y) {
  if (residual != nullptr)
    return for_each_block<T>(layout, part, Normalize<T, With, true>{coefficients, x, residual, y});
  for_each_block<T>(layout, part, Normalize<T, With, false>{coefficients, x, nullptr, y});
}

template <typename T>
LOCKSTEP_INLINE void normalize_each(const ChannelLayout& layout, const TensorPart& part,
                                    const ForwardCoefficients& coefficients, const T* x, const T* residual, T* y) {
  switch (coefficients.clip) {
    case Clip::none: return normalize_with<Clip::none>(layout, part, coefficients, x, residual, y);
    case Clip::relu: return normalize_with<Clip::relu>(layout, part, coefficients, x, residual, y);
    case Clip::relu6: return normalize_with<Clip::relu6>(layout, part, coefficients, x, residual, y);
  }
}

template <typename T>
LOCKSTEP_INLINE void sum_each_channel(const ChannelLayout& layout, const TensorPart& part, const T* x, double* sum,
                                      double* squares) {
  make_zero(layout, part, sum);
  make_zero(layout, part, squares);
  for_each_block<T>(layout, part, SumChannels<T>{x, sum, squares});
}

}  // namespace

Threshold threshold_of(double scale, double shift) {
  return find_threshold(scale, shift, 0, [](float result) { return result > 0; });
}

Threshold threshold_of_six(double scale, double shift) {
  return find_threshold(scale, shift, 6, [](float result) { return result >= 6; });
}

void sum_channels(const ChannelLayout& layout, const TensorPart& part, const float* x, double* sum, double* squares) {
  sum_each_channel(layout, part, x, sum, squares);
}

void sum_channels(const ChannelLayout& layout, const TensorPart& part, const bfloat16* x, double* sum,
                  double* squares) {
  sum_each_channel(layout, part, x, sum, squares);
}

void normalize(const ChannelLayout& layout, const TensorPart& part, const ForwardCoefficients& coefficients,
               const float* x, const float* residual, float* y) {
  normalize_each(layout, part, coefficients, x, residual, y);
}

void normalize(const ChannelLayout& layout, const TensorPart& part, const ForwardCoefficients& coefficients,
               const bfloat16* x, const bfloat16* residual, bfloat16* y) {
  normalize_each(layout, part, coefficients, x, residual, y);
}

}  // namespace lockstep::kernels
