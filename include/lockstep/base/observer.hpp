// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string_view>

#include "lockstep/base/types.hpp"

namespace lockstep {

using Clock = std::chrono::steady_clock;

/// A time span of some work. The strings live until `Observer::span` returns.
struct Span {
  std::string_view track;  ///< track in a timeline: "compute", "communication", "data"
  std::string_view name;   ///< e.g. "backward conv2", "all_reduce bucket 3"
  Clock::time_point begin;
  Clock::time_point end;
  Bytes bytes;                      ///< 0 if it moves no data
  std::string_view algorithm = {};  ///< algorithm of an operation, for instance "shared-memory"; empty if unknown
};

/// Receives spans from all parts of the library. Implementations may be called from several threads.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Is called when a span has ended. Its strings may be invalid afterwards.
  virtual void span(const Span& span) = 0;
};

}  // namespace lockstep
