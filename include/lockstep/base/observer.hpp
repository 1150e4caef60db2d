// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string_view>

#include "lockstep/base/types.hpp"

namespace lockstep {

using Clock = std::chrono::steady_clock;

/// Something that took time. The strings live until `Observer::span` returns.
struct Span {
  std::string_view track;  ///< the row it is drawn on: "compute", "communication", "data"
  std::string_view name;   ///< e.g. "backward conv2", "all_reduce bucket 3"
  Clock::time_point begin;
  Clock::time_point end;
  Bytes bytes;                      ///< 0 where it moves no data
  std::string_view algorithm = {};  ///< by which an operation ran, e.g. "shared-memory"; empty where nobody says
};

/// Receives what the lower floors do. Implementations may be called from several threads.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Is told of a span when it has ended. What it points to may be gone afterwards.
  virtual void span(const Span& span) = 0;
};

}  // namespace lockstep
