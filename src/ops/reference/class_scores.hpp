// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Helpers for losses over classes.
namespace lockstep::ops::reference {

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
