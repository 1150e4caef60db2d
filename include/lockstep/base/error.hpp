// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A substitute for std::source_location for compilers whose standard library lacks it (clang 14 with libstdc++ 12).
class SourceLocation {
 public:
  /// Returns the place of the call, also where the call is the default argument of another function.
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
  out_of_memory,     ///< a GPU has no room for an allocation
  io,                ///< a file could not be read or written
  corrupt,           ///< a file was read and its contents are wrong
  diverged,          ///< training has produced a loss or gradients that are not finite
};

std::string_view name(ErrorCode code);

/// The time that lockstep waits for another rank or a device without progress, unless a program sets another deadline.
inline constexpr std::chrono::seconds usual_deadline{120};

/// The known circumstances of an error. Unknown fields are empty.
struct ErrorContext {
  std::string operation;               ///< e.g. "all_reduce"
  std::string label;                   ///< the caller's name for the operation, such as that of a tensor or bucket
  std::optional<std::int64_t> step;    ///< the training step, from 1
  std::optional<int> rank;             ///< the rank that reports
  std::string host;                    ///< the host it runs on
  std::vector<int> peers;              ///< the ranks at fault, or waited for
  std::optional<std::int64_t> bytes;   ///< the size of the buffer concerned
  std::optional<std::int64_t> action;  ///< action, from 0, at which the plan of a collective waits on this rank
};

/// The exception type of lockstep. `what()` is a single line that names every known field of the context.
class Error : public std::exception {
 public:
  /// @param message  a single line that names the value at fault and says what to do
  Error(ErrorCode code, std::string message, ErrorContext context = {},
        SourceLocation location = SourceLocation::current());

  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] const ErrorContext& context() const noexcept { return context_; }
  [[nodiscard]] const SourceLocation& location() const noexcept { return location_; }

  /// Returns the same error with the reporting rank and host filled in where they were unknown.
  [[nodiscard]] Error reported_by(int rank, std::string_view host) const;
  /// Returns the same error with the step filled in where it was unknown.
  [[nodiscard]] Error in_step(std::int64_t step) const;
  /// Returns the same error with the action of the plan filled in where it was unknown.
  [[nodiscard]] Error in_action(std::int64_t action) const;
  /// Returns the same error with operation, label and bytes filled in where they were unknown.
  [[nodiscard]] Error of_operation(const ErrorContext& operation) const;
  /// Returns the same error with these ranks added to its peers.
  [[nodiscard]] Error naming_also(const std::vector<int>& peers) const;
  /// Returns the same error, marked as thrown by every rank at the same point: one rank reports it, and the job can end
  /// in good order. A rank closes its communicators before it lets such an error out. If it destroys them instead, the
  /// ranks that have yet to hear of the error take it for one that has given up.
  [[nodiscard]] Error on_every_rank() const;
  [[nodiscard]] bool is_on_every_rank() const noexcept { return on_every_rank_; }
  /// Returns the same error, marked as the consequence of an error of another rank, which reports the cause.
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

/// Returns the exception that is being handled. An Error has the reporting rank and host filled in where they were
/// unknown.
/// @pre in a catch clause
std::exception_ptr current_exception_of(int rank, std::string_view host);

}  // namespace lockstep
