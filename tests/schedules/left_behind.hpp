// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace lockstep::schedules {

/// During the scope, the address sanitizer does not report allocations as leaks, because a rank that stops for good
/// leaves its memory behind, as its process would.
class LeftBehind {
 public:
#if defined(__SANITIZE_ADDRESS__)
  LeftBehind() { __lsan_disable(); }
  ~LeftBehind() { __lsan_enable(); }
#else
  LeftBehind() = default;
  ~LeftBehind() = default;
#endif
  LeftBehind(const LeftBehind&) = delete;
  LeftBehind& operator=(const LeftBehind&) = delete;
};

}  // namespace lockstep::schedules
