// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace lockstep::schedules {

/// As long as it lives, the address sanitizer takes nothing that is allocated for leaked: a rank that is made to stop
/// for good leaves behind what it holds, as its process would.
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
