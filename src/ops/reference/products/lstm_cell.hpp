// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace lockstep::ops::reference {

template <typename T>
T sigmoid_of(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// The cell of one sample at one step. Pointers are to `hidden` values; those to gates are to i, f, g and o, `hidden`
/// values each.
template <typename T>
struct LstmCell {
  std::int64_t hidden;

  /// Turns sums into gates, in place. @param before  the cell at the step before
  void forward(T* gates, const T* before, T* cell, T* state) const {
    for (std::int64_t j = 0; j < hidden; ++j) {
      T& i = gates[j];
      T& f = gates[hidden + j];
      T& g = gates[2 * hidden + j];
      T& o = gates[3 * hidden + j];
      i = sigmoid_of(i);
      f = sigmoid_of(f);
      g = std::tanh(g);
      o = sigmoid_of(o);
      cell[j] = f * before[j] + i * g;
      state[j] = o * std::tanh(cell[j]);
    }
  }

  /// @param d_state  gradient of the state  @param d_cell  gradient of the cell from the step after; overwritten with
  ///        that of the cell before
  /// @param d_gates  overwritten with the gradients of the sums
  void backward(const T* gates, const T* before, const T* cell, const T* d_state, T* d_cell, T* d_gates) const {
    for (std::int64_t j = 0; j < hidden; ++j) {
      const T i = gates[j];
      const T f = gates[hidden + j];
      const T g = gates[2 * hidden + j];
      const T o = gates[3 * hidden + j];
      const T squashed = std::tanh(cell[j]);
      const T dc = d_cell[j] + d_state[j] * o * (T{1} - squashed * squashed);
      d_gates[j] = dc * g * i * (T{1} - i);
      d_gates[hidden + j] = dc * before[j] * f * (T{1} - f);
      d_gates[2 * hidden + j] = dc * i * (T{1} - g * g);
      d_gates[3 * hidden + j] = d_state[j] * squashed * o * (T{1} - o);
      d_cell[j] = dc * f;
    }
  }
};

}  // namespace lockstep::ops::reference
