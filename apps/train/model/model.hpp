// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/train/cluster/cluster.hpp"
#include "apps/train/data/data.hpp"
#include "apps/train/options/options.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/models.hpp"

namespace lockstep::train {

/// The third stage of a run: its model, and where it is computed.
struct ModelOnDevice {
  nn::Graph graph;
  DeviceChoice device;  ///< CPUs in place of `Cluster::device` if an operator has no kernel for GPUs
};

/// What the second and the third stage result in.
struct DataAndModel {
  Data data;
  ModelOnDevice model;
};

/// Loads the data set, makes the graph of the model that the options name, for the data, and applies
/// `Options::graph_edits`. The ranks agree on all of it in one exchange. Collective.
/// @throws Error on every rank if a rank cannot read its files; Error{mismatch} on every rank if the ranks' data
///         differ. UsageError on every rank as `fit_to_run`; if the model cannot take such data, which names both, the
///         reason and the models that can; or that names an option that cannot be applied to the model. Error on every
///         rank, naming the operator, if the options ask for GPUs, and it has no kernel for them
DataAndModel load_data_and_model(const Cluster& cluster, const Options& options, const Registry& registry);

}  // namespace lockstep::train
