// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax.hpp"

#include <bit>
#include <cmath>

#include "kernels/vectorized.hpp"

namespace lockstep::kernels {
namespace {

/// Returns exp(x) for x ≤ 0, within 1.2 units of the last place; below −87.3, where the result would be no normal
/// number, it is 0. Unlike the library's function it can be vectorized.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2, so exp(x) = 2ⁿ·exp(r). ln 2 has two parts, of which n times the first is exact.
LOCKSTEP_INLINE float exponential(float x) {
  constexpr float round = 0x1.8p23F;  // adding it rounds to an integer, which the lowest bits of the sum then have
  constexpr float least = -0x1.5d589ep6F;
  const float shifted = x * 0x1.715476p0F + round;
  const float n = shifted - round;
  const float r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
  float sum = 0x1.6a244cp-10F;  // of all 1 + r + … + r⁶ the one whose largest relative error, 3·10⁻⁹, is least
  sum = sum * r + 0x1.1239d4p-7F;
  sum = sum * r + 0x1.5558f2p-5F;
  sum = sum * r + 0x1.555492p-3F;
  sum = sum * r + 0x1.fffffcp-2F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(shifted) << 23;  // n, where a float has its exponent
  const auto result = std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum) + bits);
  return x < least ? 0.0F : x == x ? result : x;
}
LOCKSTEP_INLINE double exponential(double x) { return std::exp(x); }

template <typename T>
LOCKSTEP_INLINE void set_softmax_of(const ClassScores<T>& scores, T* largest, std::int32_t* winner, T* sum) {
  for (std::int64_t i = 0; i < scores.positions; ++i) {
    largest[i] = scores.first[i];
    winner[i] = 0;
    sum[i] = 0;
  }
  for (std::int64_t c = 1; c < scores.classes; ++c) {
    const T* of_class = scores.first + c * scores.stride;
    for (std::int64_t i = 0; i < scores.positions; ++i) {
      const bool is_larger = of_class[i] > largest[i];
      winner[i] = is_larger ? static_cast<std::int32_t>(c) : winner[i];
      largest[i] = is_larger ? of_class[i] : largest[i];
    }
  }
  for (std::int64_t c = 0; c < scores.classes; ++c) {
    const T* of_class = scores.first + c * scores.stride;
    for (std::int64_t i = 0; i < scores.positions; ++i) sum[i] += exponential(of_class[i] - largest[i]);
  }
}

template <typename T>
LOCKSTEP_INLINE void set_gradient(const ClassScores<T>& scores, std::int32_t of_class, const Softmax<T>& softmax,
                                  const CrossEntropyTarget<T>& target, T spread, T* gradient) {
  const T* score = scores.first + of_class * scores.stride;
  const auto [largest, sum] = softmax;
  const auto [label, scale, mass, own] = target;
  for (std::int64_t i = 0; i < scores.positions; ++i) {
    const T probability = exponential(score[i] - largest[i]) / sum[i];
    const T of_label = label[i] == of_class ? own[i] : T{0};
    const T value = scale[i] * (mass[i] * probability - (of_label + spread));
    gradient[i] = scale[i] == T{0} ? T{0} : value;
  }
}

}  // namespace

LOCKSTEP_VECTORISED void set_softmax(const ClassScores<float>& scores, float* largest, std::int32_t* winner,
                                     float* sum) {
  set_softmax_of(scores, largest, winner, sum);
}
void set_softmax(const ClassScores<double>& scores, double* largest, std::int32_t* winner, double* sum) {
  set_softmax_of(scores, largest, winner, sum);
}

LOCKSTEP_VECTORISED void set_cross_entropy_gradient(const ClassScores<float>& scores, std::int32_t of_class,
                                                    const Softmax<float>& softmax,
                                                    const CrossEntropyTarget<float>& target, float spread,
                                                    float* gradient) {
  set_gradient(scores, of_class, softmax, target, spread, gradient);
}
void set_cross_entropy_gradient(const ClassScores<double>& scores, std::int32_t of_class,
                                const Softmax<double>& softmax, const CrossEntropyTarget<double>& target, double spread,
                                double* gradient) {
  set_gradient(scores, of_class, softmax, target, spread, gradient);
}

}  // namespace lockstep::kernels
