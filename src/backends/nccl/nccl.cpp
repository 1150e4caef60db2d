// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl.hpp"

#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/nccl/nccl_check.hpp"
#include "backends/nccl/nccl_communicator.hpp"
#include "kernels/cuda/launch.hpp"
#include "lockstep/base/error.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::backends {
namespace {

/// NCCL reads NCCL_ALGO when a process makes its first communicator, and never again. The bare form, "Ring", would
/// apply to the other collectives too, which have no tree, and make them fail. Tree order asks nothing of NCCL.
void choose_algorithm(NcclAlgorithm algorithm) {
  if (algorithm == NcclAlgorithm::tree_order) return;
  static std::mutex mutex;
  static std::optional<NcclAlgorithm> chosen;
  const std::lock_guard lock(mutex);
  if (chosen && *chosen != algorithm) {
    throw Error(ErrorCode::unsupported,
                "NCCL takes one algorithm per process, and an earlier communicator has the other");
  }
  chosen = algorithm;
  setenv("NCCL_ALGO", algorithm == NcclAlgorithm::ring ? "allreduce:ring" : "allreduce:tree", 1);
}

/// Rank 0's id on every rank. Where rank 0 fails to make one the others learn of it, instead of waiting for it.
ncclUniqueId share_unique_id(const NcclGroup& group) {
  ncclUniqueId id{};
  std::vector<std::byte> bytes;
  ncclResult_t made = ncclSuccess;
  if (group.rank.value == 0 && (made = ncclGetUniqueId(&id)) == ncclSuccess) {
    bytes.resize(sizeof id);
    std::memcpy(bytes.data(), &id, sizeof id);
  }
  bytes = group.broadcast_from_zero(std::move(bytes));
  LOCKSTEP_NCCL_CHECK(made, nullptr);
  if (bytes.size() != sizeof id) {
    throw Error(ErrorCode::transport, "rank 0 could not make an NCCL id", {.operation = "make_nccl", .peers = {0}});
  }
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

void validate(const NcclGroup& group, const NcclOptions& options) {
  const ErrorContext context{.operation = "make_nccl", .rank = group.rank.value, .host = options.host};
  if (group.size < 1 || group.rank.value < 0 || group.rank.value >= group.size) {
    throw Error(ErrorCode::invalid_argument, "there is no such rank among " + std::to_string(group.size), context);
  }
  if (const std::string why = kernels::cuda::why_no_kernels();
      options.algorithm == NcclAlgorithm::tree_order && !why.empty()) {
    throw Error(ErrorCode::unsupported, "no tree order: " + why, context);
  }
  const int gpus = gpu_count();
  if (gpus == 0) throw Error(ErrorCode::unsupported, "no GPU: " + why_no_gpu(), context);
  if (group.gpu < 0 || group.gpu >= gpus) {
    throw Error(ErrorCode::invalid_argument,
                "there is no GPU " + std::to_string(group.gpu) + "; this process sees " + std::to_string(gpus),
                context);
  }
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(const NcclGroup& group, Progress& progress, const NcclOptions& options) {
  validate(group, options);
  select_gpu(group.gpu);
  choose_algorithm(options.algorithm);
  return std::make_unique<NcclCommunicator>(group, share_unique_id(group), progress, options);
}

std::string nccl_version() {
  int version = 0;
  LOCKSTEP_NCCL_CHECK(ncclGetVersion(&version), nullptr);
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace lockstep::backends
