// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "lockstep/base/observer.hpp"

namespace lockstep {

/// Returns the seconds from a time until now.
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace lockstep
