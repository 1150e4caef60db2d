// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <algorithm>

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
LOCKSTEP_INLINE void for_each_block(const ChannelLayout& layout, const Kernel& kernel) {
  const std::int64_t run = layout.positions * layout.lanes;
  for (std::int64_t i = 0; i < layout.images * layout.groups; ++i) {
    Block block{i * run, layout.positions, layout.lanes, i % layout.groups * layout.lanes};
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

template <bool Relu>
struct Normalise {
  ForwardCoefficients coefficients;
  const float* x;
  float* y;

  template <std::int64_t Lanes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    Vector<double, Lanes> scale(coefficients.scale + block.channel);
    Vector<double, Lanes> shift(coefficients.shift + block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      for (std::int64_t lane = 0; lane < Lanes; ++lane) {
        const auto value = static_cast<float>(static_cast<double>(x[i + lane]) * scale[lane] + shift[lane]);
        y[i + lane] = Relu && value < 0 ? 0.0F : value;  // a NaN stays one
      }
    }
  }
};

struct SumGradients {
  const float* means;
  const float* x;
  const float* dy;
  double* sum;
  double* products;

  template <std::int64_t Lanes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    Vector<float, Lanes> mean(means + block.channel);
    Vector<double, Lanes> a(sum + block.channel);
    Vector<double, Lanes> b(products + block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      for (std::int64_t lane = 0; lane < Lanes; ++lane) a[lane] += static_cast<double>(dy[i + lane]);
      for (std::int64_t lane = 0; lane < Lanes; ++lane) {
        b[lane] += static_cast<double>(dy[i + lane]) * static_cast<double>(x[i + lane] - mean[lane]);
      }
    }
    a.store(sum + block.channel);
    b.store(products + block.channel);
  }
};

struct BackwardInput {
  BackwardCoefficients coefficients;
  const float* x;
  const float* dy;
  float* dx;

  template <std::int64_t Lanes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    Vector<float, Lanes> mean(coefficients.mean + block.channel);
    Vector<float, Lanes> scale(coefficients.scale + block.channel);
    Vector<float, Lanes> slope(coefficients.slope + block.channel);
    Vector<float, Lanes> intercept(coefficients.intercept + block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      for (std::int64_t lane = 0; lane < Lanes; ++lane) {
        dx[i + lane] = scale[lane] * dy[i + lane] - slope[lane] * (x[i + lane] - mean[lane]) - intercept[lane];
      }
    }
  }
};

}  // namespace

LOCKSTEP_VECTORISED
void sum_channels(const ChannelLayout& layout, const float* x, double* sum, double* squares) {
  std::fill_n(sum, layout.channels(), 0.0);
  std::fill_n(squares, layout.channels(), 0.0);
  for_each_block(layout, SumChannels{x, sum, squares});
}

LOCKSTEP_VECTORISED
void normalise(const ChannelLayout& layout, const ForwardCoefficients& coefficients, const float* x, float* y) {
  if (coefficients.relu) {
    for_each_block(layout, Normalise<true>{coefficients, x, y});
  } else {
    for_each_block(layout, Normalise<false>{coefficients, x, y});
  }
}

LOCKSTEP_VECTORISED
void sum_gradients(const ChannelLayout& layout, const float* mean, const float* x, const float* dy, double* sum,
                   double* products) {
  std::fill_n(sum, layout.channels(), 0.0);
  std::fill_n(products, layout.channels(), 0.0);
  for_each_block(layout, SumGradients{mean, x, dy, sum, products});
}

LOCKSTEP_VECTORISED
void backward_input(const ChannelLayout& layout, const BackwardCoefficients& coefficients, const float* x,
                    const float* dy, float* dx) {
  for_each_block(layout, BackwardInput{coefficients, x, dy, dx});
}

}  // namespace lockstep::kernels
