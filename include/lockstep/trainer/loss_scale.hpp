// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/trainer/options.hpp"

namespace lockstep::trainer {

/// The factor of one step after the other. All ranks do the same with it.
class LossScale {
 public:
  /// @throws Error{invalid_argument} if the initial factor is negative or not finite, or the interval not positive
  explicit LossScale(const LossScaleOptions& options);

  /// 1 where there is none.
  [[nodiscard]] double factor() const { return factor_ == 0 ? 1 : factor_; }
  /// Whether a smaller factor might make finite what is not: there is one above 1.
  [[nodiscard]] bool may_be_at_fault() const { return factor_ > 1; }
  /// After each step, with whether all was finite.
  void update(bool finite);

  /// For snapshots; 0 where there is none.
  [[nodiscard]] double state() const { return factor_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Goes on from a snapshot's, if both runs have one.
  void restore(double state, std::int64_t steps);

 private:
  double factor_;
  std::int64_t interval_;
  std::int64_t steps_ = 0;  // since the factor has changed
};

}  // namespace lockstep::trainer
