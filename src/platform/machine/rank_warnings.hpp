// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "platform/machine/topology.hpp"

namespace lockstep {

/// How one rank uses its machine.
struct RankUse {
  int rank = 0;
  CpuSet pus;          ///< PUs on which it may run
  int threads = 1;     ///< threads that compute at the same time
  bool spins = false;  ///< whether these threads spin while they wait for each other, as OpenMP's do by default
  CpuSet near_gpu;     ///< PUs that its GPU is attached to; empty without a GPU, or if this is unknown
};

/// Returns warnings, each with its remedy, about ranks that disturb each other on one machine: partly overlapping
/// bindings, fewer PUs than threads, threads that spin on PUs that other ranks need.
/// @param ranks  all ranks of the machine, in ascending order
std::vector<std::string> crowding_warnings(const Topology& topology, std::span<const RankUse> ranks);

/// Returns a warning for each rank that is bound away from the PUs of its GPU.
std::vector<std::string> distant_gpu_warnings(std::span<const RankUse> ranks);

}  // namespace lockstep
