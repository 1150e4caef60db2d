// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/stored.hpp"

/// The sigmoid of vectors. Compilers call the library's exponential element by element, and this one has the same bits
/// with every instruction set.
namespace lockstep::kernels {

/// sigmoid = 1 ÷ (1 + exp(−x)), with a relative error below 3·10⁻⁷. A NaN stays a NaN, and what is too large for an
/// exponential becomes 0 or 1.
/// @source exp(y) = 2ⁿ·exp(r) with n = y ÷ ln 2 rounded and |r| ≤ ln 2 ÷ 2, and Taylor's series of exp(r) to r⁷
template <typename Pack>
LOCKSTEP_INLINE void set_sigmoid(const typename Pack::Floats& x, typename Pack::Floats& sigmoid) {
  using Floats = typename Pack::Floats;
  using Bits32 = typename Pack::Bits32;
  constexpr float binary_log_of_e = 1.44269504F;
  constexpr float upper_ln2 = 0.693359375F;  // few bits, so that its products with n are exact
  constexpr float lower_ln2 = -2.12194440e-4F;
  constexpr float to_integer = 12582912.0F;  // 1.5·2²³: a sum with it has the rounded number in its last bits
  const Floats largest = Floats{} + 88.8F;   // 2ⁿ is then infinite
  const Floats smallest = Floats{} - 87.0F;
  Floats y = -x;
  y = y > largest ? largest : y;
  y = y < smallest ? smallest : y;
  const Floats shifted = y * binary_log_of_e + to_integer;
  const Floats n = shifted - to_integer;
  const Floats r = y - n * upper_ln2 - n * lower_ln2;
  Floats series = r * (1.0F / 5040) + 1.0F / 720;
  series = series * r + 1.0F / 120;
  series = series * r + 1.0F / 24;
  series = series * r + 1.0F / 6;
  series = series * r + 0.5F;
  series = series * r + 1.0F;
  series = series * r + 1.0F;
  Bits32 bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127U) << 23;  // the exponent of 2ⁿ
  Floats power;
  std::memcpy(&power, &bits, sizeof power);
  sigmoid = 1.0F / (series * power + 1.0F);
}

}  // namespace lockstep::kernels
