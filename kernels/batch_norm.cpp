// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include "kernels/channel_blocks.hpp"

namespace lockstep::kernels {

namespace {

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

}  // namespace

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

}  // namespace lockstep::kernels
