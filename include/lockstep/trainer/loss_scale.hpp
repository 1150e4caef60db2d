// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/trainer/options.hpp"

namespace lockstep::trainer {

/// The dynamic loss scale. All ranks update it alike.
class LossScale {
 public:
  /// @throws Error{invalid_argument} if the initial factor is negative or not finite, or the interval not positive
  explicit LossScale(const LossScaleOptions& options);

  /// The factor of the current step; 1 without loss scaling.
  [[nodiscard]] double factor() const { return factor_ == 0 ? 1 : factor_; }
  /// Whether a smaller factor might avoid the overflow: the factor is above 1.
  [[nodiscard]] bool may_be_at_fault() const { return factor_ > 1; }
  /// Is called after each step, with whether all values were finite.
  void update(bool finite);

  /// The factor for snapshots; 0 without loss scaling.
  [[nodiscard]] double state() const { return factor_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Restores the factor of a snapshot, if both runs use loss scaling.
  void restore(double state, std::int64_t steps);

 private:
  double factor_;
  std::int64_t interval_;
  std::int64_t steps_ = 0;  // steps since the factor changed
};

}  // namespace lockstep::trainer
