// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/train/options/options.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::train {

/// Where the ranks of a run compute.
struct DeviceChoice {
  Device device = Device::cpu;
  std::vector<int> gpus;  ///< `GroupOptions::gpus`
  std::string why;        ///< why --device auto has not chosen GPUs; empty if it has, or was not given
};

/// Starts one rank for each GPU that --device lists, by mpirun, if it lists several and no launcher has started this
/// process. It then does not return.
/// @throws UsageError if there is no mpirun
void start_ranks(int argc, char** argv, const Options& options);

/// Chooses the device of all ranks. Collective.
/// @throws Error on every rank if GPUs were asked for and cannot be used, naming rank, host and remedy
DeviceChoice choose_device(const World& world, const Options& options);

/// Returns the device for a graph: CPUs in place of GPUs if it has an operator without a kernel for these.
/// @throws Error on every rank, naming the operator, if GPUs were asked for
DeviceChoice device_for(const nn::Graph& graph, const Options& options, const DeviceChoice& chosen);

}  // namespace lockstep::train
