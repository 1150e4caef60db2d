// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl.hpp"

#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "backends/nccl/nccl_communicator.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "kernels/cuda/launch.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::backends {
namespace {

AlgorithmVariable& variable_of_process() {
  static AlgorithmVariable variable;
  return variable;
}

std::vector<std::byte> make_id() {
  ncclUniqueId id{};
  LOCKSTEP_NCCL_CHECK(GetUniqueId(&id), nullptr);
  std::vector<std::byte> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

ncclUniqueId id_from(const std::vector<std::byte>& bytes) {
  ncclUniqueId id{};
  std::memcpy(&id, bytes.data(), std::min(sizeof id, bytes.size()));
  return id;
}

void validate(const NcclGroup& group, const NcclOptions& options) {
  const ErrorContext context{.operation = "make_nccl", .rank = group.rank.value, .host = options.hostname};
  if (group.size < 1 || group.rank < 0 || group.rank >= group.size) {
    throw Error(ErrorCode::invalid_argument, "there is no such rank among " + std::to_string(group.size), context);
  }
  if (const std::string why = kernels::cuda::why_no_kernels();
      options.algorithm == NcclAlgorithm::tree_order && !why.empty()) {
    throw Error(ErrorCode::unsupported, "no tree order: " + why, context);
  }
  if (options.scratch < NcclOptions::least_scratch) {
    throw Error(ErrorCode::invalid_argument,
                "scratch of " + std::to_string(options.scratch.value) + " bytes: give at least " +
                    std::to_string(NcclOptions::least_scratch.value),
                context);
  }
  const int gpus = gpu_count();
  if (gpus == 0) throw Error(ErrorCode::unsupported, "no GPU: " + why_no_gpu(), context);
  if (group.gpu < 0 || group.gpu >= gpus) {
    throw Error(ErrorCode::invalid_argument,
                "there is no GPU " + std::to_string(group.gpu) + "; this process sees " + std::to_string(gpus),
                context);
  }
  static_cast<void>(nccl());  // throws if it cannot be loaded
}

/// Warns once in a process, on rank 0 only.
void warn_of_known_fault(Rank rank, const Progress& progress) {
  static std::atomic<bool> is_said = false;
  const std::string fault = known_fault(nccl().version);
  if (!fault.empty() && rank == Rank{0} && !is_said.exchange(true)) progress.say(fault);
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(const NcclGroup& group, Progress& progress, const NcclOptions& options) {
  std::optional<AlgorithmVariable::Hold> held;
  std::vector<std::byte> id;  // filled by rank 0
  std::optional<Error> refusal;
  try {
    validate(group, options);
    select_gpu(group.gpu);
    if (nccl().all_reduce_by == nullptr) held.emplace(variable_of_process(), options.algorithm);
    if (group.rank == Rank{0}) id = make_id();
  } catch (const Error& error) {
    refusal = error.reported_by(group.rank.value, options.hostname);
  }
  group.agree(refusal);
  id = group.broadcast_from_zero(std::move(id));
  auto communicator = std::make_unique<NcclCommunicator>(group, id_from(id), progress, options);
  if (held) held->keep();
  warn_of_known_fault(group.rank, progress);
  return std::make_unique<Communicator>(std::move(communicator));
}

std::string nccl_version() { return text(nccl().version); }

}  // namespace lockstep::backends
