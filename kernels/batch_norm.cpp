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

template <Clip With, bool Residual>
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
        if (With != Clip::none) value = value < 0 ? 0.0F : value;  // a NaN stays one
        if (With == Clip::relu6) value = value > 6 ? 6.0F : value;
        y[i + lane] = value;
      }
    }
  }
};

template <Clip With>
LOCKSTEP_INLINE void normalise_with(const ChannelLayout& layout, const TensorPart& part,
                                    const ForwardCoefficients& coefficients, const float* x, const float* residual,
                                    float* y) {
  if (residual != nullptr) return for_each_block(layout, part, Normalise<With, true>{coefficients, x, residual, y});
  for_each_block(layout, part, Normalise<With, false>{coefficients, x, nullptr, y});
}

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
  switch (coefficients.clip) {
    case Clip::none: return normalise_with<Clip::none>(layout, part, coefficients, x, residual, y);
    case Clip::relu: return normalise_with<Clip::relu>(layout, part, coefficients, x, residual, y);
    case Clip::relu6: return normalise_with<Clip::relu6>(layout, part, coefficients, x, residual, y);
  }
}

}  // namespace lockstep::kernels
