// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "lockstep/ops/operators.hpp"
#include "lockstep/ops/step.hpp"

/// What connectionist temporal classification consists of, the same source on every device. Probabilities are
/// logarithms in double.
namespace lockstep::ops::ctc {

inline constexpr double impossible = -std::numeric_limits<double>::infinity();

/// Returns log(eᵃ + eᵇ + eᶜ).
LOCKSTEP_HOST_DEVICE inline double log_add(double a, double b, double c) {
  const double larger = b > a ? b : a;
  const double smaller = b > a ? a : b;
  const double largest = c > larger ? c : larger;
  const double third = c > larger ? larger : c;
  if (largest == impossible) return a + b + c;  // NaN if one of them is a NaN
  return largest + std::log(1 + std::exp(smaller - largest) + std::exp(third - largest));
}

/// One sample. Its targets are expanded to states: blank, target, blank, …, target, blank.
struct Transcript {
  const std::int32_t* targets;
  std::int64_t states;  ///< 0: the sample does not count
  std::int64_t steps;
  std::int32_t blank;

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int32_t label(std::int64_t state) const {
    return state % 2 == 0 ? blank : targets[state / 2];
  }
  /// Returns whether a path may skip the state before this one: a blank between two different targets.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool skips_to(std::int64_t state) const {
    return state % 2 == 1 && state >= 3 && label(state) != label(state - 2);
  }
  /// Returns the log probability of the beginnings of paths that are in a state at a step, without its emission there.
  /// @param before  that of all states with their emissions at the step before
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double reached(const double* before, std::int64_t state) const {
    return log_add(before[state], state >= 1 ? before[state - 1] : impossible,
                   skips_to(state) ? before[state - 2] : impossible);
  }
  /// Returns the log probability of the ends of paths from the following step on.
  /// @param after  that of all states at the following step, which is included
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double left(const double* after, std::int64_t state) const {
    return log_add(after[state], state + 1 < states ? after[state + 1] : impossible,
                   state + 2 < states && skips_to(state + 2) ? after[state + 2] : impossible);
  }
  /// The same for the last step.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double left_at_end(std::int64_t state) const {
    return state >= states - 2 ? 0 : impossible;
  }
  /// Returns the log probability of all paths. @param last  that of all states at the last step, if there is a step
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double of_all_paths(const double* last) const {
    if (steps == 0) return states == 1 ? 0 : impossible;
    return log_add(last[states - 1], states > 1 ? last[states - 2] : impossible, impossible);
  }
  /// Returns whether the likeliest class at each step, without repetitions and blanks, yields the targets.
  /// @param likeliest  by step
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool is_read(const std::int32_t* likeliest) const {
    std::int64_t read = 0;
    std::int32_t last = blank;
    for (std::int64_t t = 0; t < steps; ++t) {
      const std::int32_t best = likeliest[t];
      if (best != last && best != blank) {
        if (read == states / 2 || targets[read] != best) return false;
        ++read;
      }
      last = best;
    }
    return read == states / 2;
  }
};

/// The samples of a call.
struct Transcripts {
  const std::int32_t* targets;
  const std::int32_t* lengths;
  const std::int32_t* steps;  ///< null: all count
  std::int64_t longest;       ///< the most targets of a sample
  std::int64_t most_steps;
  std::int64_t classes;
  std::int32_t blank;

  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t steps_of(std::int64_t n) const {
    return steps == nullptr ? most_steps : steps[n];
  }
  /// Returns the first bad value of a sample; the code is none if there is none.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Fault fault_of(std::int64_t n) const {
    const std::int64_t length = lengths[n];
    if (length < 0 || length > longest) return {FaultCode::targets, -1, n, length, longest};
    if (steps_of(n) < 0 || steps_of(n) > most_steps) return {FaultCode::steps, -1, n, steps_of(n), most_steps};
    for (std::int64_t i = n * longest; i < n * longest + length; ++i)
      if (targets[i] < 0 || targets[i] >= classes || targets[i] == blank)
        return {FaultCode::target, -1, n, targets[i], classes};
    return {};
  }
  /// Returns a sample; one with a bad value has no states.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Transcript at(std::int64_t n) const {
    if (fault_of(n).code != FaultCode::none) return {targets, 0, 0, blank};
    return {targets + n * longest, 2 * std::int64_t{lengths[n]} + 1, steps_of(n), blank};
  }
};

}  // namespace lockstep::ops::ctc
