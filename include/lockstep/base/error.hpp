// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

enum class ErrorCode {
  invalid_argument,  ///< the caller passed something that can never work
  unsupported,       ///< valid, but this build, machine or back end cannot do it
  transport,         ///< MPI, NCCL or a socket failed
  timeout,           ///< a peer did not answer within the deadline
  mismatch,          ///< ranks disagree about what they are doing together
  device,            ///< a GPU or its driver failed
  io,                ///< a file could not be read or written
  corrupt,           ///< a file was read and its contents are wrong
  diverged,          ///< training has produced a loss or gradients that are not finite
};

std::string_view name(ErrorCode code);

/// What is known about the place and the circumstances of an error. Unknown fields stay empty.
struct ErrorContext {
  std::string operation;              ///< e.g. "all_reduce"
  std::string label;                  ///< the caller's name for it: a tensor or bucket
  std::optional<std::int64_t> step;   ///< step of the plan, or of training
  std::optional<int> rank;            ///< the rank that reports
  std::string host;                   ///< the host it runs on
  std::vector<int> peers;             ///< the ranks at fault or waited for
  std::optional<std::int64_t> bytes;  ///< size of the buffer concerned
};

/// The one exception type of lockstep.
/// `what()` is a single line that names every known field of the context.
class Error : public std::exception {
 public:
  /// @param message  names the value at fault and says what to do; a single line
  Error(ErrorCode code, std::string message, ErrorContext context = {},
        SourceLocation location = SourceLocation::current());

  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] const ErrorContext& context() const noexcept { return context_; }
  [[nodiscard]] const SourceLocation& location() const noexcept { return location_; }

  /// The same error with the reporting rank and host filled in where they were unknown.
  [[nodiscard]] Error reported_by(int rank, std::string_view host) const;
  /// The same error with the step filled in where it was unknown.
  [[nodiscard]] Error in_step(std::int64_t step) const;
  /// The same error with operation, label and bytes filled in where they were unknown.
  [[nodiscard]] Error of_operation(const ErrorContext& operation) const;
  /// The same error with these ranks added to its peers.
  [[nodiscard]] Error naming_also(const std::vector<int>& peers) const;
  /// The same error, known to be thrown by every rank at the same point: it needs to be reported only once, and the job
  /// can end in good order. Whoever leaves closes its communicators first: one that is destroyed instead looks like a
  /// rank that has given up to those that have yet to hear of the error.
  [[nodiscard]] Error on_every_rank() const;
  [[nodiscard]] bool is_on_every_rank() const noexcept { return on_every_rank_; }
  /// The same error, known to follow from an error of another rank, which reports the cause and ends the job.
  [[nodiscard]] Error as_consequence() const;
  [[nodiscard]] bool is_consequence() const noexcept { return is_consequence_; }

 private:
  void compose();

  ErrorCode code_;
  std::string message_;
  ErrorContext context_;
  SourceLocation location_;
  bool on_every_rank_ = false;
  bool is_consequence_ = false;
  std::string text_;
};

/// The exception that is being handled; an Error with the reporting rank and host filled in where they were unknown.
/// @pre in a catch clause
std::exception_ptr current_exception_of(int rank, std::string_view host);

}  // namespace lockstep
