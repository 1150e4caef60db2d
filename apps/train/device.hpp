// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/common/command_line.hpp"
#include "apps/train/options.hpp"
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

/// Reads the value of --device. @return the indices of a list; nothing for a word
std::vector<int> listed_gpus(const std::string& device);
/// Returns what is wrong with --device and the options beside it; empty if nothing is.
std::string conflict_of_device(const OptionValues& given, const Options& options);
/// Returns why a run with these options computes on the CPU; empty if it can use GPUs.
std::string why_not_on_gpus(const OptionValues& given, const Options& options);

/// Starts one rank for each GPU that --device lists, by mpirun, if it lists several and no launcher has started this
/// process. It then does not return.
/// @throws UsageError if there is no mpirun
void start_ranks(int argc, char** argv, const Options& options);

/// Chooses the device of all ranks. Collective.
/// @throws Error on every rank if GPUs were asked for and cannot be used, naming rank, host and remedy
DeviceChoice choose_device(const World& world, const Options& options);

/// The default of --bucket-mb on GPUs: a link of theirs needs larger messages for its bandwidth than a network.
inline constexpr Bytes bucket_on_gpus{25 << 20};

/// Chooses CPUs in place of GPUs if the graph has an operator without a kernel for these.
/// @throws Error on every rank, naming the operator, if GPUs were asked for
void require_kernels(const nn::Graph& graph, const Options& options, DeviceChoice& device);

}  // namespace lockstep::train
