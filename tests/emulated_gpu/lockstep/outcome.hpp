// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep::on_emulated_gpus {

/// The outcome of a rank's call, and its duration.
struct Outcome {
  std::optional<Error> error;
  double seconds = 0;

  [[nodiscard]] bool failed_by(ErrorCode code) const { return error && error->code() == code; }
  [[nodiscard]] bool is_consequence() const { return error && error->is_consequence(); }
  /// Returns whether the error names this rank, among its peers or as the rank that threw it.
  [[nodiscard]] bool names(int rank) const {
    if (!error) return false;
    const auto& peers = error->context().peers;
    return std::find(peers.begin(), peers.end(), rank) != peers.end() || error->context().rank == rank;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << "after " << outcome.seconds << " s: " << (outcome.error ? outcome.error->what() : "all went well");
}

/// Calls a function and returns its outcome. Exceptions other than Error are passed on.
template <typename Call>
Outcome outcome_of(const Call& call) {
  const auto begin = Clock::now();
  Outcome outcome;
  try {
    call();
  } catch (const Error& error) {
    outcome.error = error;
  }
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return outcome;
}

}  // namespace lockstep::on_emulated_gpus
