// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <sstream>

#include "lockstep/base/error.hpp"

namespace lockstep {

/// @throws Error{invalid_argument} unless the deadline is positive and at most 10⁹ s, so that clocks can add it
inline void require_deadline(std::chrono::duration<double> deadline) {
  constexpr double longest = 1e9;
  if (deadline.count() > 0 && deadline.count() <= longest) return;
  std::ostringstream text;
  text << "a deadline of " << deadline.count()
       << " s is not possible: set GroupOptions::deadline or WorldOptions::deadline to more than 0 s, at most 1e9 s";
  throw Error(ErrorCode::invalid_argument, text.str());
}

}  // namespace lockstep
