// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/vectorised.hpp"

namespace lockstep::kernels {

namespace {

/// Some channels of one image: element (position, lane) is at begin + position·stride + lane.
struct Block {
  std::int64_t begin;
  std::int64_t positions;
  std::int64_t stride;
  std::int64_t channel;  ///< of the first lane
};

/// Calls `kernel.run<Lanes>(block)` over all elements, with 16 or 8 lanes, known at compile time, where so many are
/// left.
template <typename Kernel>
LOCKSTEP_INLINE void for_each_block(const ChannelLayout& layout, const TensorPart& part, const Kernel& kernel) {
  const std::int64_t run = layout.positions * layout.lanes;
  for (std::int64_t image = part.first_image; image < part.end_image; ++image) {
    for (std::int64_t group = part.first_group; group < part.end_group; ++group) {
      Block block{(image * layout.groups + group) * run, layout.positions, layout.lanes, group * layout.lanes};
      const auto advance = [&block](std::int64_t lanes) {
        block.begin += lanes;
        block.channel += lanes;
      };
      std::int64_t left = layout.lanes;
      for (; left >= 16; left -= 16, advance(16)) kernel.template run<16>(block);
      for (; left >= 8; left -= 8, advance(8)) kernel.template run<8>(block);
      for (; left >= 1; left -= 1, advance(1)) kernel.template run<1>(block);
    }
  }
}

/// One value per lane, in registers: the compiler cannot know that an output does not overlap the coefficients.
template <typename T, std::int64_t Lanes>
struct Vector {
  T values[Lanes];
  LOCKSTEP_INLINE explicit Vector(const T* from) { std::copy_n(from, Lanes, values); }
  LOCKSTEP_INLINE T& operator[](std::int64_t lane) { return values[lane]; }
  LOCKSTEP_INLINE void store(T* to) const { std::copy_n(values, Lanes, to); }
};

struct SumChannels {
  const float* x;
  double* sum;
  double* squares;

  template <std::int64_t Lanes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    Vector<double, Lanes> a(sum + block.channel);
    Vector<double, Lanes> b(squares + block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const float* in = x + block.begin + p * block.stride;
      for (std::int64_t lane = 0; lane < Lanes; ++lane) a[lane] += static_cast<double>(in[lane]);
      for (std::int64_t lane = 0; lane < Lanes; ++lane) {
        b[lane] += static_cast<double>(in[lane]) * static_cast<double>(in[lane]);
      }
    }
    a.store(sum + block.channel);
    b.store(squares + block.channel);
  }
};

template <bool Relu, bool Residual>
struct Normalise {
  ForwardCoefficients coefficients;
  const float* x;
  const float* residual;
  float* y;

  template <std::int64_t Lanes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    Vector<double, Lanes> scale(coefficients.scale + block.channel);
    Vector<double, Lanes> shift(coefficients.shift + block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      for (std::int64_t lane = 0; lane < Lanes; ++lane) {
        auto value = static_cast<float>(static_cast<double>(x[i + lane]) * scale[lane] + shift[lane]);
        if (Residual) value += residual[i + lane];
        y[i + lane] = Relu && value < 0 ? 0.0F : value;  // a NaN stays one
      }
    }
  }
};

enum class MaskedBy { nothing, input, output };

MaskedBy masked_by(const Mask& mask) {
  if (mask.output != nullptr) return MaskedBy::output;
  return mask.direction != nullptr ? MaskedBy::input : MaskedBy::nothing;
}

/// Lanes in vectors of as many as an instruction converts between float and double. Written out, since the compiler
/// does not find that comparisons can be made so.
template <std::int64_t Lanes>
struct Packs {
  static constexpr std::int64_t size = Lanes >= 8 ? 8 : 1;
  static constexpr std::int64_t count = Lanes / size;
  using Floats [[gnu::vector_size(size * sizeof(float))]] = float;
  using Doubles [[gnu::vector_size(size * sizeof(double))]] = double;

  /// All of them.
  template <typename Vector, typename T>
  LOCKSTEP_INLINE static void load(Vector (&values)[count], const T* from) {
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(&values[k], from + k * size, sizeof values[k]);
  }
  template <typename Vector, typename T>
  LOCKSTEP_INLINE static void store(const Vector (&values)[count], T* to) {
    for (std::int64_t k = 0; k < count; ++k) std::memcpy(to + k * size, &values[k], sizeof values[k]);
  }
};

template <MaskedBy By, bool Second>
struct SumGradients {
  const float* means;
  Mask mask;
  const float* x;
  const float* dy;
  const float* second;
  float* g;
  double* sum;
  double* products;

  template <std::int64_t Lanes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    using Pack = Packs<Lanes>;
    using Floats = typename Pack::Floats;
    using Doubles = typename Pack::Doubles;
    Floats mean[Pack::count];
    Floats direction[Pack::count]{};
    Floats from[Pack::count]{};
    Doubles a[Pack::count];
    Doubles b[Pack::count];
    Pack::load(mean, means + block.channel);
    Pack::load(a, sum + block.channel);
    Pack::load(b, products + block.channel);
    if (By == MaskedBy::input) {
      Pack::load(direction, mask.direction + block.channel);
      Pack::load(from, mask.from + block.channel);
    }
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      Floats in[Pack::count];
      Floats gradient[Pack::count];
      Floats other[Pack::count]{};
      Floats output[Pack::count]{};
      Pack::load(in, x + i);
      Pack::load(gradient, dy + i);
      if (Second) Pack::load(other, second + i);
      if (By == MaskedBy::output) Pack::load(output, mask.output + i);
      for (std::int64_t k = 0; k < Pack::count; ++k) {
        if (Second) gradient[k] += other[k];
        if (By == MaskedBy::input) gradient[k] = in[k] * direction[k] >= from[k] ? gradient[k] : Floats{};
        if (By == MaskedBy::output) gradient[k] = output[k] > 0 ? gradient[k] : Floats{};
        const Doubles wide = __builtin_convertvector(gradient[k], Doubles);
        a[k] += wide;
        b[k] += wide * __builtin_convertvector(in[k] - mean[k], Doubles);
      }
      if (Second || By == MaskedBy::output) Pack::store(gradient, g + i);
    }
    Pack::store(a, sum + block.channel);
    Pack::store(b, products + block.channel);
  }
};

template <MaskedBy By>
struct BackwardInput {
  BackwardCoefficients coefficients;
  Mask mask;
  const float* x;
  const float* dy;
  float* dx;

  template <std::int64_t Lanes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    using Pack = Packs<Lanes>;
    using Floats = typename Pack::Floats;
    Floats mean[Pack::count];
    Floats scale[Pack::count];
    Floats slope[Pack::count];
    Floats intercept[Pack::count];
    Floats direction[Pack::count]{};
    Floats from[Pack::count]{};
    Pack::load(mean, coefficients.mean + block.channel);
    Pack::load(scale, coefficients.scale + block.channel);
    Pack::load(slope, coefficients.slope + block.channel);
    Pack::load(intercept, coefficients.intercept + block.channel);
    if (By == MaskedBy::input) {
      Pack::load(direction, mask.direction + block.channel);
      Pack::load(from, mask.from + block.channel);
    }
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      Floats in[Pack::count];
      Floats gradient[Pack::count];
      Pack::load(in, x + i);
      Pack::load(gradient, dy + i);
      for (std::int64_t k = 0; k < Pack::count; ++k) {
        if (By == MaskedBy::input) gradient[k] = in[k] * direction[k] >= from[k] ? gradient[k] : Floats{};
        gradient[k] = scale[k] * gradient[k] - slope[k] * (in[k] - mean[k]) - intercept[k];
      }
      Pack::store(gradient, dx + i);
    }
  }
};

/// Finite floats and infinities in their order, as integers.
float at(std::int64_t place) {
  return std::copysign(std::bit_cast<float>(static_cast<std::uint32_t>(std::abs(place))), place < 0 ? -1.0F : 1.0F);
}
constexpr std::int64_t last_place = 0x7f800000;
std::int64_t place_of(float x) {
  const auto magnitude = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(std::abs(x)));
  return x < 0 ? -magnitude : magnitude;
}

void make_zero(const ChannelLayout& layout, const TensorPart& part, double* values) {
  std::fill(values + part.first_group * layout.lanes, values + part.end_group * layout.lanes, 0.0);
}

}  // namespace

Threshold threshold_of(double scale, double shift) {
  constexpr float nowhere = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto positive = [=](std::int64_t place) {
    return static_cast<float>(static_cast<double>(at(place)) * std::abs(scale) + shift) > 0;
  };
  const float direction = scale < 0 ? -1.0F : 1.0F;
  if (scale == 0) return {direction, static_cast<float>(shift) > 0 ? -infinity : nowhere};
  const auto guess = static_cast<float>(-shift / std::abs(scale));
  if (!(std::abs(scale) < infinity) || std::isnan(guess)) return {direction, nowhere};
  // Near to where it is in exact numbers: from there in growing steps to both sides of it, then by halves.
  std::int64_t above = place_of(guess);
  std::int64_t below = above;
  for (std::int64_t step = 1; above < last_place && !positive(above); step *= 2)
    above = std::min(above + step, last_place);
  if (!positive(above)) return {direction, nowhere};
  for (std::int64_t step = 1; below > -last_place && positive(below); step *= 2)
    below = std::max(below - step, -last_place);
  if (positive(below)) return {direction, -infinity};
  while (above - below > 1) {
    const std::int64_t middle = below + (above - below) / 2;
    (positive(middle) ? above : below) = middle;
  }
  return {direction, at(above)};
}

LOCKSTEP_VECTORISED
void sum_channels(const ChannelLayout& layout, const TensorPart& part, const float* x, double* sum, double* squares) {
  make_zero(layout, part, sum);
  make_zero(layout, part, squares);
  for_each_block(layout, part, SumChannels{x, sum, squares});
}

LOCKSTEP_VECTORISED
void normalise(const ChannelLayout& layout, const TensorPart& part, const ForwardCoefficients& coefficients,
               const float* x, const float* residual, float* y) {
  if (coefficients.relu && residual != nullptr) {
    for_each_block(layout, part, Normalise<true, true>{coefficients, x, residual, y});
  } else if (coefficients.relu) {
    for_each_block(layout, part, Normalise<true, false>{coefficients, x, nullptr, y});
  } else if (residual != nullptr) {
    for_each_block(layout, part, Normalise<false, true>{coefficients, x, residual, y});
  } else {
    for_each_block(layout, part, Normalise<false, false>{coefficients, x, nullptr, y});
  }
}

LOCKSTEP_VECTORISED
void sum_gradients(const ChannelLayout& layout, const TensorPart& part, const float* mean, const Mask& mask,
                   const float* x, const float* dy, const float* second, float* g, double* sum, double* products) {
  make_zero(layout, part, sum);
  make_zero(layout, part, products);
  const MaskedBy by = masked_by(mask);
  if (by == MaskedBy::input && second != nullptr) {
    for_each_block(layout, part, SumGradients<MaskedBy::input, true>{mean, mask, x, dy, second, g, sum, products});
  } else if (by == MaskedBy::input) {
    for_each_block(layout, part, SumGradients<MaskedBy::input, false>{mean, mask, x, dy, second, g, sum, products});
  } else if (by == MaskedBy::output && second != nullptr) {
    for_each_block(layout, part, SumGradients<MaskedBy::output, true>{mean, mask, x, dy, second, g, sum, products});
  } else if (by == MaskedBy::output) {
    for_each_block(layout, part, SumGradients<MaskedBy::output, false>{mean, mask, x, dy, second, g, sum, products});
  } else if (second != nullptr) {
    for_each_block(layout, part, SumGradients<MaskedBy::nothing, true>{mean, mask, x, dy, second, g, sum, products});
  } else {
    for_each_block(layout, part, SumGradients<MaskedBy::nothing, false>{mean, mask, x, dy, second, g, sum, products});
  }
}

LOCKSTEP_VECTORISED
void backward_input(const ChannelLayout& layout, const TensorPart& part, const BackwardCoefficients& coefficients,
                    const Mask& mask, const float* x, const float* dy, float* dx) {
  if (masked_by(mask) == MaskedBy::input) {
    for_each_block(layout, part, BackwardInput<MaskedBy::input>{coefficients, mask, x, dy, dx});
  } else {
    for_each_block(layout, part, BackwardInput<MaskedBy::nothing>{coefficients, mask, x, dy, dx});
  }
}

}  // namespace lockstep::kernels
