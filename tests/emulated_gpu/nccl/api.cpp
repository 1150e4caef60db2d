// SPDX-License-Identifier: Apache-2.0
// Communicators from the cradle to the grave, and what does not concern one.
#include <algorithm>
#include <set>
#include <sstream>

#include "emulated_gpu/device/faults.hpp"
#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/group.hpp"
#include "emulated_gpu/nccl/rendezvous.hpp"

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

bool is_blocking(const ncclConfig_t* config) { return config == nullptr || config->blocking != 0; }

/// The handle is there at once; its communicator is when all ranks have met.
ncclResult_t make(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config,
                  const std::string& where) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks || !is_id(id))
    return refuse(ncclInvalidArgument, "invalid rank, number of ranks or id");
  auto communicator = std::make_shared<Communicator>(rank, ranks, is_blocking(config));
  communicator->device = current_device();
  if (communicator->device.uuid.empty()) return refuse(ncclUnhandledCudaError, "no CUDA-capable device is detected");
  auto* made = new ncclComm{communicator};
  *handle = made;
  const ncclResult_t result =
      add_to_group(communicator, [communicator, id, where] { return communicator->join(id, where); });
  if (result == ncclSuccess || result == ncclInProgress) return result;
  last_words = communicator->last_error();
  delete made;
  *handle = nullptr;
  return result;
}

ncclResult_t split(const std::shared_ptr<Communicator>& parent, const std::shared_ptr<Communicator>& child, int colour,
                   int key) {
  const auto all = parent->meet_again("split", std::to_string(colour) + " " + std::to_string(key));
  if (!all) return parent->fail(ncclRemoteError, "ncclCommSplit: a rank is gone");
  if (!child) return ncclSuccess;
  std::set<std::pair<int, int>> members;  // key, rank of the parent
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    std::istringstream words((*all)[rank]);
    int its_colour = 0;
    int its_key = 0;
    words >> its_colour >> its_key;
    if (its_colour == colour) members.emplace(its_key, static_cast<int>(rank));
  }
  const auto place = std::distance(members.begin(), members.find({key, parent->rank}));
  return child->join_part(*parent, static_cast<int>(place), static_cast<int>(members.size()), colour);
}

}  // namespace

ncclResult_t injected_nccl_error(const char* call) {
  const auto name = injected_fault(call);
  return name ? refuse(code_named(*name), std::string(call) + " was told to fail") : ncclSuccess;
}

ncclResult_t refuse(ncclResult_t code, const std::string& why) {
  last_words = why;
  return code;
}

const std::string& last_refusal() { return last_words; }

ncclResult_t check_usable(ncclComm_t handle) {
  if (handle == nullptr) return refuse(ncclInvalidArgument, "the communicator is null");
  Communicator& communicator = *handle->communicator;
  const ncclResult_t state = communicator.state();
  if (state == ncclInProgress)
    return communicator.fail(ncclInvalidArgument, "the communicator is used before its last call has succeeded");
  if (state != ncclSuccess) return state;
  if (communicator.is_finalized || communicator.is_revoked)
    return communicator.fail(ncclInvalidUsage, "the communicator is finalized or revoked");
  return ncclSuccess;
}

}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return refuse(ncclInvalidArgument, "the place for the version is null");
  *version = NCCL_VERSION_CODE;
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
  text = handle != nullptr ? handle->communicator->last_error() : "";
  if (text.empty()) text = last_refusal();
  return text.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  EMULATED_NCCL_CALL("ncclCommInitRankConfig");
  return make(handle, ranks, id, rank, config, "all");
}

ncclResult_t ncclCommInitRank(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank) {
  EMULATED_NCCL_CALL("ncclCommInitRank");
  return make(handle, ranks, id, rank, nullptr, "all");
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* handle, int ranks, int rank, int ids, ncclUniqueId* id,
                                      ncclConfig_t* config) {
  EMULATED_NCCL_CALL("ncclCommInitRankScalable");
  if (ids < 1 || id == nullptr) return refuse(ncclInvalidArgument, "no unique id");
  return make(handle, ranks, id[0], rank, config, "all");
}

ncclResult_t ncclCommInitAll(ncclComm_t* handles, int ranks, const int* devices) {
  EMULATED_NCCL_CALL("ncclCommInitAll");
  const ncclUniqueId id = make_id();
  int before = 0;
  cudaGetDevice(&before);
  begin_group();
  for (int rank = 0; rank < ranks; ++rank) {
    cudaSetDevice(devices == nullptr ? rank : devices[rank]);
    make(&handles[rank], ranks, id, rank, nullptr, "all");
  }
  cudaSetDevice(before);
  return end_group();
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int colour, int key, ncclComm_t* part, ncclConfig_t* config) {
  EMULATED_NCCL_CALL("ncclCommSplit");
  if (const ncclResult_t result = check_usable(handle); result != ncclSuccess) return result;
  const std::shared_ptr<Communicator> parent = handle->communicator;
  std::shared_ptr<Communicator> child;
  *part = nullptr;
  if (colour != NCCL_SPLIT_NOCOLOR) {
    const bool blocks =
        config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT ? parent->blocking : config->blocking != 0;
    child = std::make_shared<Communicator>(0, 1, blocks);
    child->device = parent->device;
    *part = new ncclComm{child};
  }
  return parent->run([parent, child, colour, key] { return split(parent, child, colour, key); });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  EMULATED_NCCL_CALL("ncclCommFinalize");
  if (const ncclResult_t result = check_usable(handle); result != ncclSuccess) return result;
  const std::shared_ptr<Communicator> communicator = handle->communicator;
  communicator->is_finalized = true;
  return communicator->run([communicator] {
    communicator->wait_for_tasks();
    return communicator->meet_again("finalize", "") ? ncclSuccess : ncclRemoteError;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  EMULATED_NCCL_CALL("ncclCommDestroy");
  if (handle == nullptr) return ncclSuccess;
  handle->communicator->wait_for_jobs();
  handle->communicator->wait_for_tasks();
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  EMULATED_NCCL_CALL("ncclCommAbort");
  if (handle == nullptr) return ncclSuccess;
  handle->communicator->abort();
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  EMULATED_NCCL_CALL("ncclCommRevoke");
  if (handle == nullptr || flags != NCCL_REVOKE_DEFAULT) return refuse(ncclInvalidArgument, "invalid flags");
  const std::shared_ptr<Communicator> communicator = handle->communicator;
  communicator->is_revoked = true;
  communicator->stop_tasks();
  return communicator->run([communicator] {
    communicator->wait_for_stopped_tasks();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  if (handle == nullptr || state == nullptr) return refuse(ncclInvalidArgument, "the communicator is null");
  if (const auto error = injected_fault("async")) handle->communicator->report(code_named(*error));
  let_the_gpus_work();
  *state = handle->communicator->state();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  if (handle == nullptr || count == nullptr || handle->communicator->state() == ncclInProgress)
    return ncclInvalidArgument;
  *count = handle->communicator->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  if (handle == nullptr || device == nullptr || handle->communicator->state() == ncclInProgress)
    return ncclInvalidArgument;
  *device = handle->communicator->device.number;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  if (handle == nullptr || rank == nullptr || handle->communicator->state() == ncclInProgress)
    return ncclInvalidArgument;
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

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  EMULATED_NCCL_CALL("ncclMemAlloc");
  return cudaMalloc(address, bytes) == cudaSuccess
             ? ncclSuccess
             : refuse(ncclUnhandledCudaError, cudaGetErrorString(cudaGetLastError()));
}

ncclResult_t ncclMemFree(void* address) {
  EMULATED_NCCL_CALL("ncclMemFree");
  return cudaFree(address) == cudaSuccess ? ncclSuccess
                                          : refuse(ncclUnhandledCudaError, cudaGetErrorString(cudaGetLastError()));
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
