// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_check.hpp"

#include <string>

namespace lockstep::backends {
namespace {

ErrorCode category(ncclResult_t code) {
  switch (code) {
    case ncclUnhandledCudaError: return ErrorCode::device;
    case ncclInvalidArgument:
    case ncclInvalidUsage: return ErrorCode::invalid_argument;
    default: return ErrorCode::transport;
  }
}

}  // namespace

void throw_nccl_error(ncclResult_t code, std::string_view call, ncclComm_t communicator, SourceLocation location) {
  std::string message = std::string(nccl().GetErrorString(code)) + " from " + std::string(call);
  if (const char* last_error = nccl().GetLastError(communicator); last_error != nullptr && *last_error != '\0') {
    message += ": " + std::string(last_error);
  }
  throw Error(category(code), message, {}, location);
}

}  // namespace lockstep::backends
