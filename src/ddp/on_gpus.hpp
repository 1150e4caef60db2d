// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/nccl.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"

/// What a group on GPUs is, before there is one.
namespace lockstep::ddp {

/// What NCCL does where this method was asked for.
/// @throws Error{unsupported} that names the method, or the compression, which have no meaning on a GPU
backends::NcclAlgorithm nccl_algorithm(const GroupOptions& options);

/// The GPUs of a node are dealt to its ranks in their order; a launcher may also have shown each rank one of its own.
/// @param gpus  that this process sees, at least 1
int gpu_of(Rank rank, const ClusterShape& shape, int gpus);

/// The error of this rank if another one of the group has the same GPU, which NCCL cannot serve.
/// @param uuids  of each rank's GPU
std::optional<Error> shared_gpu(Rank rank, const std::vector<std::string>& uuids,
                                const std::vector<std::string>& hosts);

}  // namespace lockstep::ddp
