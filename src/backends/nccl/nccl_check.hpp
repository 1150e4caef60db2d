// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string_view>

#include "backends/nccl/nccl_library.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {

/// @param communicator  the one concerned, for NCCL's last error message about it, or nullptr
/// @throws Error{invalid_argument | device | transport} with NCCL's text for `code` and the call that returned it
[[noreturn]] void throw_nccl_error(ncclResult_t code, std::string_view call, ncclComm_t communicator,
                                   SourceLocation location = SourceLocation::current());

}  // namespace lockstep::backends

/// LOCKSTEP_NCCL_CHECK(Send(…), communicator) calls ncclSend and throws unless it succeeds or, on a non-blocking
/// communicator, goes on in the background.
#define LOCKSTEP_NCCL_CHECK(call, communicator)                                               \
  do {                                                                                        \
    if (const ncclResult_t lockstep_nccl_code = ::lockstep::backends::nccl().call;            \
        lockstep_nccl_code != ncclSuccess && lockstep_nccl_code != ncclInProgress)            \
      ::lockstep::backends::throw_nccl_error(lockstep_nccl_code, "nccl" #call, communicator); \
  } while (false)
