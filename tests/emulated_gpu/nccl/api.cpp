// SPDX-License-Identifier: Apache-2.0
// Functions that query communicators or end them, and functions without a communicator.
#include <cstdlib>
#include <vector>

#include "emulated_gpu/device/faults.hpp"
#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/device/violation.hpp"
#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/group.hpp"
#include "emulated_gpu/nccl/rendezvous.hpp"
#include "emulated_gpu/nccl/windows.hpp"

namespace emulated_gpu {
namespace {

thread_local std::string last_words;

ncclResult_t code_named(const std::string& name) {
  constexpr std::pair<const char*, ncclResult_t> names[] = {{"ncclUnhandledCudaError", ncclUnhandledCudaError},
                                                            {"ncclSystemError", ncclSystemError},
                                                            {"ncclInvalidArgument", ncclInvalidArgument},
                                                            {"ncclInvalidUsage", ncclInvalidUsage},
                                                            {"ncclRemoteError", ncclRemoteError},
                                                            {"ncclInProgress", ncclInProgress}};
  for (const auto& [known, code] : names)
    if (name == known) return code;
  return ncclInternalError;
}

Communicator& check_alive(ncclComm_t handle) {
  if (handle->communicator == nullptr) violation("NCCL is called with a communicator that was destroyed or aborted");
  return *handle->communicator;
}

void retire(ncclComm_t handle) {
  static auto* retired = new std::vector<std::unique_ptr<ncclComm>>;  // reachable for leak checkers
  forget_windows(*handle->communicator);
  handle->communicator.reset();
  const std::scoped_lock lock(device_lock());
  retired->emplace_back(handle);
}

}  // namespace

ncclResult_t injected_nccl_error(const char* call) {
  record_call(call);
  const auto name = injected_fault(call);
  return name ? refuse(code_named(*name), std::string(call) + " was told to fail") : ncclSuccess;
}

ncclResult_t refuse(ncclResult_t code, const std::string& why) {
  last_words = why;
  return code;
}

const std::string& last_refusal() { return last_words; }

ncclResult_t check_ready(ncclComm_t handle) {
  if (handle == nullptr) return refuse(ncclInvalidArgument, "the communicator is null");
  Communicator& communicator = check_alive(handle);
  const ncclResult_t state = communicator.state();
  if (state == ncclSuccess && !communicator.is_made)
    return communicator.fail(ncclInvalidArgument, "the communicator is used in the group that makes it");
  if (state != ncclInProgress) return state;
  return communicator.fail(ncclInvalidArgument, "the communicator is used before its last call has succeeded");
}

ncclResult_t check_usable(ncclComm_t handle) {
  if (const ncclResult_t result = check_ready(handle); result != ncclSuccess) return result;
  Communicator& communicator = *handle->communicator;
  if (communicator.is_finalized || communicator.is_revoked)
    return communicator.fail(ncclInvalidUsage, "the communicator is finalized or revoked");
  return ncclSuccess;
}

}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  EMULATED_NCCL_CALL("ncclGetVersion");
  if (version == nullptr) return refuse(ncclInvalidArgument, "the place for the version is null");
  const char* pretended = std::getenv("EMULATED_NCCL_VERSION");
  *version = pretended != nullptr ? std::atoi(pretended) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  EMULATED_NCCL_CALL("ncclGetUniqueId");
  if (id == nullptr) return refuse(ncclInvalidArgument, "the place for the id is null");
  *id = make_id();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t handle) {
  static thread_local std::string text;
  text = handle != nullptr ? check_alive(handle).last_error() : "";
  if (text.empty()) text = last_refusal();
  return text.c_str();
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  EMULATED_NCCL_CALL("ncclCommFinalize");
  if (handle == nullptr) return ncclSuccess;
  const ncclResult_t ready = check_ready(handle);
  const std::shared_ptr<Communicator> communicator = handle->communicator;
  if (ready != ncclSuccess) return communicator->refuse_call(ready, communicator->last_error());
  if (communicator->is_revoked || communicator->is_finalized.exchange(true))
    return communicator->refuse_call(ncclInvalidArgument, "the communicator was finalized or revoked before");
  return add_to_group(communicator, [communicator] {
    communicator->wait_for_tasks();
    return communicator->meet_again("finalize", "") ? ncclSuccess : ncclRemoteError;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  EMULATED_NCCL_CALL("ncclCommDestroy");
  if (handle == nullptr) return ncclSuccess;
  if (const ncclResult_t result = check_ready(handle); result != ncclSuccess) return result;
  if (!handle->communicator->is_revoked) handle->communicator->wait_for_tasks();
  retire(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  EMULATED_NCCL_CALL("ncclCommAbort");
  if (handle == nullptr) return ncclSuccess;
  check_alive(handle).abort();
  retire(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  EMULATED_NCCL_CALL("ncclCommRevoke");
  if (handle == nullptr) return ncclSuccess;
  check_alive(handle);
  const std::shared_ptr<Communicator> communicator = handle->communicator;
  if (flags != NCCL_REVOKE_DEFAULT || communicator->is_finalized || communicator->is_revoked.exchange(true))
    return communicator->fail(ncclInvalidArgument, "invalid flags, or the communicator was finalized or revoked");
  communicator->revoke();
  return communicator->run([communicator] {
    communicator->wait_for_stopped_tasks();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  EMULATED_NCCL_CALL("ncclCommGetAsyncError");
  if (handle == nullptr || state == nullptr) return refuse(ncclInvalidArgument, "the communicator is null");
  check_alive(handle);
  if (const auto error = injected_fault("async")) handle->communicator->report(code_named(*error));
  let_the_gpus_work();
  *state = handle->communicator->state();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  EMULATED_NCCL_CALL("ncclCommCount");
  if (count == nullptr) return refuse(ncclInvalidArgument, "the place for the answer is null");
  if (const ncclResult_t result = check_ready(handle); result != ncclSuccess) return result;
  *count = handle->communicator->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  EMULATED_NCCL_CALL("ncclCommCuDevice");
  if (device == nullptr) return refuse(ncclInvalidArgument, "the place for the answer is null");
  if (const ncclResult_t result = check_ready(handle); result != ncclSuccess) return result;
  *device = handle->communicator->device.number;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  EMULATED_NCCL_CALL("ncclCommUserRank");
  if (rank == nullptr) return refuse(ncclInvalidArgument, "the place for the answer is null");
  if (const ncclResult_t result = check_ready(handle); result != ncclSuccess) return result;
  *rank = handle->communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t handle, void* buffer, size_t bytes, void** registration) {
  EMULATED_NCCL_CALL("ncclCommRegister");
  if (const ncclResult_t result = check_usable(handle); result != ncclSuccess) return result;
  const std::scoped_lock lock(device_lock());
  const Block* block = Memory::instance().find(buffer);
  if (block == nullptr || block->was_freed || bytes == 0) return refuse(ncclInvalidArgument, "invalid buffer");
  *registration = new std::size_t(bytes);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t handle, void* registration) {
  EMULATED_NCCL_CALL("ncclCommDeregister");
  if (handle == nullptr || registration == nullptr) return refuse(ncclInvalidArgument, "invalid registration");
  delete static_cast<std::size_t*>(registration);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  EMULATED_NCCL_CALL("ncclGroupStart");
  return begin_group();
}

ncclResult_t ncclGroupEnd() {
  EMULATED_NCCL_CALL("ncclGroupEnd");
  return end_group();
}

}  // extern "C"
