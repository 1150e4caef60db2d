// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/ops.hpp"
#include "ops/formulas/functions.hpp"
#include "ops/reference/loops.hpp"

/// Helpers that several losses use.
namespace lockstep::ops::reference {

/// Returns the traits of a loss that reads its inputs again in backward.
inline Traits loss_traits(Formats in, Bytes saved = {}) {
  return {.inputs = {in.begin(), in.end()},
          .output = Format::plain({1, 3, 1, 1}, DType::float64),
          .saved = saved,
          .backward_reads_output = false};
}

/// A value with scale zero contributes zero, even if it is a NaN.
template <typename T>
T scaled(T scale, T value) {
  return scale == T{0} ? T{0} : scale * value;
}

/// Returns the factor of all gradients of a call.
inline double factor_of(const Arguments& call) { return *static_cast<const double*>(call.output_gradient); }

/// Returns the third input, or null if there is none.
template <typename T>
const T* weights_of(const Arguments& call) {
  return call.inputs.size() < 3 ? nullptr : static_cast<const T*>(call.inputs[2]);
}

/// Returns the sum of the weights, or their number if there is no input of weights.
template <typename T>
double total_weight(const Arguments& call, std::int64_t count) {
  if (call.inputs.size() < 3) return static_cast<double>(count);
  const T* weights = weights_of<T>(call);
  if (weights == nullptr && count > 0) {
    throw Error(
        ErrorCode::invalid_argument,
        "the weights of a loss cannot come from the network, because its normalizer is computed first: give them as "
        "an input");
  }
  return sum_of(count, [=](std::int64_t i) { return weights[i]; });
}

/// Computes log(1 + e) as 2·artanh(e ÷ (2 + e)), whose series has terms that shrink by a factor of at least 9. Unlike
/// the library's function, it can be vectorized.
template <typename T>
struct SeriesLog {
  static T one_and(T e) {
    constexpr int terms = sizeof(T) == sizeof(float) ? 8 : 17;
    const T ratio = e / (T{2} + e);
    const T square = ratio * ratio;
    T sum = 0;
    for (int k = terms - 1; k >= 0; --k) sum = sum * square + T{1} / static_cast<T>(2 * k + 1);
    return T{2} * ratio * sum;
  }
};

template <typename T>
using SeriesBinaryCrossEntropyAt = BinaryCrossEntropyAt<T, SeriesLog<T>>;

/// The scores of all classes at one position. Those of neighboring classes are `stride` apart.
template <typename T>
struct Scores {
  const T* first;
  std::int64_t classes;
  std::int64_t stride;

  T operator[](std::int64_t c) const { return first[c * stride]; }

  /// Returns the class with the largest score; the first one if there are several.
  [[nodiscard]] std::int64_t largest() const {
    std::int64_t largest = 0;
    for (std::int64_t c = 1; c < classes; ++c) {
      if ((*this)[c] > (*this)[largest]) largest = c;
    }
    return largest;
  }
  /// Returns Σ exp(score − shift). With the largest score as shift, no exponential overflows.
  [[nodiscard]] T sum_of_exponentials(T shift) const {
    T sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp((*this)[c] - shift);
    return sum;
  }
};

/// The weight of each class, and the part of a target that label smoothing spreads over all classes.
template <typename T>
class ClassShares {
 public:
  ClassShares(double label_smoothing, const std::vector<double>& class_weights, std::int64_t classes)
      : own_(1 - label_smoothing),
        weights_(class_weights.empty() ? std::vector<double>(static_cast<std::size_t>(classes), 1) : class_weights) {
    for (const double weight : weights_) {
      spread_.push_back(static_cast<T>(label_smoothing / static_cast<double>(classes) * weight));
      spread_total_ += static_cast<double>(spread_.back());
    }
  }

  [[nodiscard]] double weight(std::int64_t c) const { return weights_[static_cast<std::size_t>(c)]; }
  /// Returns the class's weight of the part of a target that is not spread.
  [[nodiscard]] double own(std::int64_t c) const { return own_ * weight(c); }
  /// Returns the class's weight of the part of every target that is spread.
  [[nodiscard]] T spread(std::int64_t c) const { return spread_[static_cast<std::size_t>(c)]; }
  [[nodiscard]] double spread_total() const { return spread_total_; }

 private:
  double own_;
  std::vector<double> weights_;
  std::vector<T> spread_;
  double spread_total_ = 0;
};

}  // namespace lockstep::ops::reference
