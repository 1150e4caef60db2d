// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/train/console/console.hpp"
#include "apps/train/options/options.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/graph.hpp"
#include "mpi/cluster_view.hpp"

namespace lockstep::train {

/// Where the ranks of a run compute.
struct DeviceChoice {
  Device device = Device::cpu;
  std::vector<int> gpus;  ///< `GroupOptions::gpus`
  std::string why;        ///< why --device auto has not chosen GPUs; empty if it has, or was not given
};

/// The first stage of a run: its ranks, and what they have agreed on before they load data.
struct Cluster {
  World& world;
  GlobalBatch batch;
  DeviceChoice device;        ///< what the options and the GPUs allow
  NodeView node;              ///< this rank's
  int threads = 1;            ///< of this rank
  std::string metrics;        ///< the file that rank 0 writes if any rank gives --metrics; empty: none
  std::string trace;          ///< the same for --trace
  bool same_data_dir = true;  ///< whether all ranks have the same --data or --data-dir
};

/// Returns what ranks compare before they start beside their options: the facts of any process, the instruction sets
/// and versions of the compute libraries, and kinds of GPUs if GPUs may be used. With --shards a difference that
/// changes bits does harm.
std::vector<Term> facts_to_compare(const Options& options);

/// Adds the paths that ranks may give otherwise than others.
void add_paths(Agreement& start, const Options& options);

/// Chooses the device and shows the ranks and their hosts. Collective.
/// @param start  has exchanged what `add_paths` adds
/// @throws Error{mismatch} on every rank if ranks name different files for rank 0 to write; Error on every rank if
/// GPUs were asked for and cannot be used, naming rank, host and remedy
Cluster join_cluster(World& world, const Options& options, const GlobalBatch& batch, const Agreement& start,
                     Console& console);

/// Starts one rank for each GPU that --device lists, by mpirun, if it lists several and no launcher has started this
/// process. It then does not return.
/// @throws UsageError if there is no mpirun
void start_ranks(int argc, char** argv, const Options& options);

/// Returns the device for a graph: CPUs in place of GPUs if it has an operator without a kernel for these.
/// @throws Error on every rank, naming the operator, if GPUs were asked for
DeviceChoice device_for(const nn::Graph& graph, const Options& options, const DeviceChoice& chosen);

}  // namespace lockstep::train
