// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/handles.hpp"
#include "lockstep/base/version.hpp"

namespace lockstep::bindings {
namespace {

/// The last error of a thread.
struct Last {
  int code = LOCKSTEP_SUCCESS;
  Error error{ErrorCode::invalid_argument, ""};
};
thread_local Last last;

int code_of(ErrorCode code) { return static_cast<int>(code) + 1; }
static_assert(static_cast<int>(ErrorCode::invalid_argument) + 1 == LOCKSTEP_INVALID_ARGUMENT &&
              static_cast<int>(ErrorCode::mismatch) + 1 == LOCKSTEP_MISMATCH &&
              static_cast<int>(ErrorCode::diverged) + 1 == LOCKSTEP_DIVERGED);

/// Whether the ranks of a group are no longer in step after an error of one of its operations.
bool ends_group(ErrorCode code) {
  return code == ErrorCode::transport || code == ErrorCode::timeout || code == ErrorCode::mismatch ||
         code == ErrorCode::device;
}

int keep(int code, Error error) {
  last.error = std::move(error);
  return last.code = code;
}

}  // namespace

int keep_current_error(GroupState* group) noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      if (group != nullptr && ends_group(error.code())) group->has_failed = true;
      return keep(code_of(error.code()), error);
    } catch (const std::bad_alloc&) {
      return keep(LOCKSTEP_OUT_OF_MEMORY, Error(ErrorCode::out_of_memory, "the host has no memory left"));
    } catch (const std::exception& error) {
      return keep(LOCKSTEP_INTERNAL, Error(ErrorCode::transport, error.what()));
    } catch (...) {
      return keep(LOCKSTEP_INTERNAL, Error(ErrorCode::transport, "something was thrown that is no std::exception"));
    }
  } catch (...) {  // no memory for the text
    return last.code = LOCKSTEP_OUT_OF_MEMORY;
  }
}

}  // namespace lockstep::bindings

using namespace lockstep;

int lockstep_abi_version() { return LOCKSTEP_ABI_VERSION; }

const char* lockstep_version() { return version().data(); }  // a literal

const char* lockstep_code_name(int code) {
  if (code == LOCKSTEP_SUCCESS) return "success";
  if (code == LOCKSTEP_INTERNAL) return "internal";
  if (code < 0 || code > LOCKSTEP_INTERNAL) return "unknown";
  return name(static_cast<ErrorCode>(code - 1)).data();  // of a table of literals
}

const char* lockstep_last_error() { return bindings::last.code == LOCKSTEP_SUCCESS ? "" : bindings::last.error.what(); }

int lockstep_error_details(lockstep_error* error) {
  return bindings::guarded(nullptr, [&] {
    bindings::require(error, "error");
    const Error& last = bindings::last.error;
    const ErrorContext& context = last.context();
    bindings::write(error,
                    {.code = bindings::last.code,
                     .rank = context.rank.value_or(-1),
                     .is_consequence = last.is_consequence() ? 1 : 0,
                     .is_on_every_rank = last.is_on_every_rank() ? 1 : 0,
                     .step = context.step.value_or(0),
                     .message = last.message().c_str(),
                     .operation = context.operation.c_str(),
                     .label = context.label.c_str(),
                     .host = context.host.c_str(),
                     .peers = context.peers.data(),
                     .peer_count = static_cast<int>(context.peers.size())},
                    "lockstep_error");
  });
}

int lockstep_set_error(int code, const char* message) {
  const bool is_known = code > LOCKSTEP_SUCCESS && code < LOCKSTEP_INTERNAL;
  const auto known = static_cast<ErrorCode>(is_known ? code - 1 : 0);
  const int kept = bindings::guarded(nullptr, [&] { throw Error(known, bindings::text_of(message)); });
  return is_known ? kept : bindings::last.code = code;
}
