// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.hpp"
#include "vision/cache/cache_file.hpp"

namespace lockstep::vision {

/// Runs a step. @return why it failed on this rank; empty if it succeeded
template <typename Step>
std::string reason_of_failure(const NodeRanks& ranks, const Step& step) {
  try {
    step();
    return {};
  } catch (const Error& error) {
    return "local rank " + std::to_string(ranks.rank) + ": " + error.message();
  }
}

/// Returns the first text that is not empty. Collective.
inline std::string first_reason(const NodeRanks& ranks, const std::string& own) {
  if (ranks.size == 1) return own;
  for (const std::string& reason : ranks.gather(own))
    if (!reason.empty()) return reason;
  return {};
}

}  // namespace lockstep::vision
