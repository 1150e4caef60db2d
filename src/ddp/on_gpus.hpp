// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nccl.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "platform/mpi/cluster_view.hpp"

/// What a group on GPUs is, before there is one.
namespace lockstep::ddp {

/// What NCCL does where this method was asked for.
/// @throws Error{unsupported} that names the method, or the compression, which have no meaning on a GPU
backends::NcclAlgorithm nccl_algorithm(const GroupOptions& options);
/// This machine, with the GPUs that CUDA shows where it shows any: what a rank chooses by, here and in `topo`.
/// @throws as discover_topology; Error{device}
Topology machine_with_gpus();

/// The GPU of each rank, as an index into its own list: of one near its processors, if there is one.
/// @param ranks  that see a GPU each
std::vector<int> gpus_of(const std::vector<GpuChoices>& ranks, const ClusterShape& shape);

/// The error of this rank if those of its host are more than the GPUs that they see.
std::optional<Error> crowded_host(Rank rank, const std::vector<GpuChoices>& ranks, const ClusterShape& shape,
                                  const std::vector<std::string>& hosts);

/// The error of this rank if another one has the same GPU, or an instance of the same one, and NCCL cannot serve both.
/// @param gpus  of each rank
std::optional<Error> shared_gpu(Rank rank, const std::vector<Gpu>& gpus, const std::vector<std::string>& hosts,
                                std::string_view nccl_version);

/// This rank's GPU, by CUDA's index. Collective.
/// @throws Error, on all ranks, unless each has one of its own, and the same version of NCCL
int agree_on_gpu(const MpiGroup& group);

}  // namespace lockstep::ddp
