// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// std::source_location for compilers whose standard library does not have it yet (clang 14 over libstdc++ 12).
class SourceLocation {
 public:
  /// The place of the call, also where the call is another function's default argument.
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          std::uint_least32_t line = __builtin_LINE()) {
    return {file, function, line};
  }

  [[nodiscard]] constexpr const char* file_name() const { return file_; }
  [[nodiscard]] constexpr const char* function_name() const { return function_; }
  [[nodiscard]] constexpr std::uint_least32_t line() const { return line_; }

 private:
  constexpr SourceLocation(const char* file, const char* function, std::uint_least32_t line)
      : file_(file), function_(function), line_(line) {}

  const char* file_;
  const char* function_;
  std::uint_least32_t line_;
};

}  // namespace lockstep
