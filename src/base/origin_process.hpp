// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep {

/// The process that made a handle. A child of fork() inherits a copy of the handle and the connections and shared
/// memory behind it, but none of its threads: what the child did with it, other ranks would take for acts of its
/// parent.
class OriginProcess {
 public:
  /// Records the calling process.
  OriginProcess();

  /// Whether the caller is in that process. It costs as much as reading a variable.
  [[nodiscard]] bool is_here() const { return forks_ == forks().load(std::memory_order_relaxed); }
  /// @param what  for the error: "the communicator"
  /// @throws Error{invalid_argument} in a child of fork()
  void require_here(std::string_view what, const ErrorContext& context) const {
    if (!is_here()) refuse(what, context);
  }

 private:
  /// Returns how many forks lie between the first process that loaded the library and this one.
  static std::atomic<std::uint32_t>& forks();
  [[noreturn]] void refuse(std::string_view what, const ErrorContext& context) const;

  std::uint32_t forks_;
  pid_t process_;
};

/// Holds the object until the process ends. @pre the process is a child of fork(), and has inherited the object
void keep_for_ever(std::shared_ptr<void> object);

/// Takes an object over, and holds it until the process ends, so that its destructor does not run.
template <typename T>
void keep_in_child(T&& object) noexcept {
  try {
    keep_for_ever(std::make_shared<std::decay_t<T>>(std::forward<T>(object)));
  } catch (...) {  // no memory for the holder
  }
}

}  // namespace lockstep
