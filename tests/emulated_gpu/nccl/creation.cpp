// SPDX-License-Identifier: Apache-2.0
// Creates communicators: from an id, or from another communicator.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>

#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/group.hpp"
#include "emulated_gpu/nccl/rendezvous.hpp"

namespace emulated_gpu {
namespace {

constexpr unsigned mark_of_configurations = 0xcafebeef;

bool is_valid(const ncclConfig_t* config) {
  if (config == nullptr) return true;
  return config->magic == mark_of_configurations &&
         (config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking == 0 || config->blocking == 1);
}

/// Returns whether a communicator is blocking; NCCL_COMM_BLOCKING overrides the program's configuration.
bool is_blocking(const ncclConfig_t* config, bool unless_set = true) {
  if (const char* text = std::getenv("NCCL_COMM_BLOCKING")) return std::string_view(text) != "0";
  return config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT ? unless_set : config->blocking != 0;
}

/// Makes a communicator. The handle exists at once, the communicator when all ranks have met.
ncclResult_t make(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks || !is_id(id))
    return refuse_in_group(refuse(ncclInvalidArgument, "invalid rank, number of ranks or id"));
  if (!is_valid(config))
    return refuse_in_group(refuse(ncclInvalidArgument, "a configuration without NCCL_CONFIG_INITIALIZER, or invalid"));
  auto communicator = std::make_shared<Communicator>(rank, ranks, is_blocking(config));
  communicator->device = current_device();
  if (communicator->device.uuid.empty())
    return refuse_in_group(refuse(ncclUnhandledCudaError, "no CUDA-capable device is detected"));
  *handle = new ncclComm{communicator};
  // A blocking communicator that fails is deleted; a nonblocking one remains, to be aborted.
  return add_to_group(communicator, [communicator, id, handle] {
    const ncclResult_t result = communicator->join(id, "all");
    if (result != ncclSuccess && communicator->blocking) delete std::exchange(*handle, nullptr);
    return result;
  });
}

/// @return nothing if it cannot be determined any more
std::optional<std::set<std::pair<int, int>>> members_of_color(Communicator& parent, int color, int key) {
  const auto all = parent.meet_again("split", std::to_string(color) + " " + std::to_string(key));
  if (!all) return std::nullopt;
  std::set<std::pair<int, int>> members;  // pairs of key and rank of the parent
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    std::istringstream words((*all)[rank]);
    int its_color = 0;
    int its_key = 0;
    words >> its_color >> its_key;
    if (its_color == color) members.emplace(its_key, static_cast<int>(rank));
  }
  return members;
}

std::shared_ptr<Communicator> child_of(const Communicator& parent, const ncclConfig_t* config) {
  auto child = std::make_shared<Communicator>(0, 1, is_blocking(config, parent.blocking));
  child->device = parent.device;
  return child;
}

/// Splits a communicator. The handle exists only when its communicator does, which is not while the parent is busy.
ncclResult_t split(const std::shared_ptr<Communicator>& parent, const std::shared_ptr<Communicator>& child, int color,
                   int key, ncclComm_t* part) {
  const auto members = members_of_color(*parent, color, key);
  if (!members) return parent->fail(ncclRemoteError, "ncclCommSplit: a rank is gone");
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const auto place = std::distance(members->begin(), members->find({key, parent->rank}));
  const ncclResult_t result = child->join_part(*parent, static_cast<int>(place), static_cast<int>(members->size()),
                                               "color " + std::to_string(color));
  if (result != ncclSuccess) return parent->fail(result, child->last_error());
  *part = new ncclComm{child};
  return ncclSuccess;
}

ncclResult_t shrink(const std::shared_ptr<Communicator>& parent, const std::shared_ptr<Communicator>& child,
                    const std::set<int>& excluded, ncclComm_t* rest) {
  std::string which = "without";
  for (const int rank : excluded) which += " " + std::to_string(rank);
  const auto before = std::distance(excluded.begin(), excluded.lower_bound(parent->rank));
  const ncclResult_t result = child->join_part(*parent, parent->rank - static_cast<int>(before),
                                               parent->ranks - static_cast<int>(excluded.size()), which);
  if (result != ncclSuccess) return parent->fail(result, child->last_error());
  *rest = new ncclComm{child};
  return ncclSuccess;
}

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  EMULATED_NCCL_CALL("ncclCommInitRankConfig");
  return make(handle, ranks, id, rank, config);
}

ncclResult_t ncclCommInitRank(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank) {
  EMULATED_NCCL_CALL("ncclCommInitRank");
  return make(handle, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* handle, int ranks, int rank, int ids, ncclUniqueId* id,
                                      ncclConfig_t* config) {
  EMULATED_NCCL_CALL("ncclCommInitRankScalable");
  if (ids < 1 || ids > ranks || id == nullptr || !std::all_of(id, id + ids, is_id))
    return refuse(ncclInvalidArgument, "no unique id, one that is not valid, or more than ranks");
  return make(handle, ranks, id[0], rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* handles, int ranks, const int* devices) {
  EMULATED_NCCL_CALL("ncclCommInitAll");
  int before = 0;
  if (handles == nullptr || ranks < 1) return refuse(ncclInvalidArgument, "no communicators to make");
  if (cudaGetDevice(&before) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "no CUDA-capable device is detected");
  const ncclUniqueId id = make_id();
  begin_group();
  for (int rank = 0; rank < ranks; ++rank) {
    if (cudaSetDevice(devices == nullptr ? rank : devices[rank]) != cudaSuccess) {
      refuse_in_group(refuse(ncclInvalidUsage, "there is no device for rank " + std::to_string(rank)));
      break;
    }
    make(&handles[rank], ranks, id, rank, nullptr);
  }
  cudaSetDevice(before);
  return end_group();
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  EMULATED_NCCL_CALL("ncclCommSplit");
  if (const ncclResult_t result = check_ready(handle); result != ncclSuccess) return result;
  if (part == nullptr || !is_valid(config) || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return refuse(ncclInvalidArgument, "ncclCommSplit: invalid color, configuration or place for the communicator");
  *part = nullptr;
  const std::shared_ptr<Communicator> parent = handle->communicator;
  return add_to_group(parent, [parent, child = child_of(*parent, config), color, key, part] {
    return split(parent, child, color, key, part);
  });
}

ncclResult_t ncclCommShrink(ncclComm_t handle, int* ranks, int count, ncclComm_t* rest, ncclConfig_t* config,
                            int flags) {
  EMULATED_NCCL_CALL("ncclCommShrink");
  if (handle == nullptr || ranks == nullptr || count < 1 || rest == nullptr || !is_valid(config))
    return refuse(ncclInvalidArgument, "ncclCommShrink: invalid argument");
  const std::set<int> excluded(ranks, ranks + count);
  // Errors are allowed, because they are the reason to exclude ranks.
  const ncclResult_t ready = check_ready(handle);
  const std::shared_ptr<Communicator> parent = handle->communicator;
  if (ready != ncclSuccess && (flags != NCCL_SHRINK_ABORT || parent->state() == ncclInProgress)) return ready;
  if (*excluded.begin() < 0 || *excluded.rbegin() >= parent->ranks || excluded.count(parent->rank) > 0)
    return refuse(ncclInvalidArgument, "ncclCommShrink: not a rank, or this one itself");
  *rest = nullptr;
  if (flags == NCCL_SHRINK_ABORT) parent->revoke();
  return add_to_group(parent, [parent, child = child_of(*parent, config), excluded, rest, flags] {
    if (flags == NCCL_SHRINK_ABORT) parent->wait_for_stopped_tasks();
    return shrink(parent, child, excluded, rest);
  });
}

}  // extern "C"
