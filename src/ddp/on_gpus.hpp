// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/make_communicator.hpp"
#include "backends/nccl.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "platform/ranks/agreement.hpp"
#include "platform/ranks/placement_facts.hpp"

/// Functions that select NCCL's algorithm and each rank's GPU, before a group on GPUs exists.
namespace lockstep::ddp {

/// Returns NCCL's counterpart of a method.
/// @throws Error{unsupported} that names the method if there is none
backends::NcclAlgorithm nccl_algorithm(const backends::Method& method);
/// @throws Error{unsupported} that names the option if the options have a compression or checksums, which are not
///         available on a GPU
void refuse_on_gpus(const GroupOptions& options);

/// Returns the topology of this machine, with the GPUs that are visible to CUDA if there are any. Both the selection of
/// GPUs and `topo` use it.
/// @throws as discover_topology; Error{device}
Topology machine_with_gpus();

/// Returns the GPU of each rank, as an index into the rank's own list; a GPU near the rank's cores if there is one.
/// @param ranks  all ranks, each of which has at least one visible GPU
std::vector<int> gpus_of(const std::vector<GpuChoices>& ranks, const ClusterShape& shape);

/// Returns this rank's error if its host has more ranks than they have visible GPUs.
std::optional<Error> crowded_host(Rank rank, const std::vector<GpuChoices>& ranks, const ClusterShape& shape,
                                  const std::vector<std::string>& hosts);

/// Returns this rank's error if another rank has the same GPU, or an instance of the same GPU, and NCCL cannot serve
/// both.
/// @param gpus  the GPU of each rank
std::optional<Error> shared_gpu(Rank rank, const std::vector<Gpu>& gpus, const std::vector<std::string>& hosts,
                                std::string_view nccl_version);

/// Adds to the agreement of a group what the choice of each rank's GPU depends on, and the version of NCCL.
/// @param listed  `GroupOptions::gpus`
void add_gpus(Agreement& agreement, const RankSet& group, const std::vector<int>& listed);
/// Returns this rank's GPU, as a CUDA device index, after the exchange. @pre no check of the agreement has failed
/// @throws Error, on all ranks, unless each rank has a GPU of its own and all have the same version of NCCL
int agreed_gpu(const Agreement& agreement, const RankSet& group);

/// Returns why the ranks cannot each have a GPU of their own; empty if they can. The same on all ranks. Collective.
/// @param own     why this rank cannot use GPUs anyway; empty: it can
/// @param listed  whether `GroupOptions::gpus` says which, so that their number does not matter here
std::string why_no_gpus(const RankSet& group, const std::string& own, bool listed);

}  // namespace lockstep::ddp
