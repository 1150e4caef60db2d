// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

/// What losses over classes are made of.
namespace lockstep::ops::reference {

/// Numbers of all classes at one position: those of neighboring classes are `stride` apart.
template <typename T>
struct Scores {
  const T* first;
  std::int64_t classes;
  std::int64_t stride;

  T operator[](std::int64_t c) const { return first[c * stride]; }

  /// The first of equals.
  [[nodiscard]] std::int64_t largest() const {
    std::int64_t largest = 0;
    for (std::int64_t c = 1; c < classes; ++c) {
      if ((*this)[c] > (*this)[largest]) largest = c;
    }
    return largest;
  }
  /// Shifted by the largest, no exponential overflows.
  [[nodiscard]] T sum_of_exponentials(T shift) const {
    T sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp((*this)[c] - shift);
    return sum;
  }
};

/// What each class counts, and the part of a target that is spread over all of them.
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
  /// The weight of what is not spread.
  [[nodiscard]] double own(std::int64_t c) const { return own_ * weight(c); }
  /// What every target has of the class.
  [[nodiscard]] T spread(std::int64_t c) const { return spread_[static_cast<std::size_t>(c)]; }
  [[nodiscard]] double spread_total() const { return spread_total_; }

 private:
  double own_;
  std::vector<double> weights_;
  std::vector<T> spread_;
  double spread_total_ = 0;
};

}  // namespace lockstep::ops::reference
