// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/train/data/data.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/train.hpp"
#include "lockstep/trainer/options.hpp"
#include "nn/description/description.hpp"

namespace lockstep::train {

/// The third stage of a run: its model, and where it is computed.
struct ModelOnDevice {
  trainer::Workload workload;
  nn::Graph graph;
  std::vector<nn::Graph> others = {};  ///< for the other extents of steps and evaluations (`data::extents_of`)
  DeviceChoice device;                 ///< CPUs in place of `Cluster::device` if an operator has no kernel for GPUs
  nn::ModelDescription description;
  std::string variant;  ///< " with the stem of cifar" if --stem chose another stem than the usual one; else empty
};

/// What the second and the third stage result in.
struct DataAndModel {
  Data data;
  ModelOnDevice model;
};

/// Loads the data set, makes the graph of the model that the options name, for the data, and applies
/// `Options::graph_edits`. The ranks agree on all of it in one exchange. Collective.
/// @throws Error on every rank if a rank cannot read its files; Error{mismatch} on every rank if the ranks' data
///         differ. UsageError on every rank as `fit_to_run`; if the model cannot take such data, or has other
///         parameters for the other extents of training steps, which names both, the reason and the models that can; or
///         that names an option that cannot be applied to the model. Error on every rank, naming the operator, if the
///         options ask for GPUs, and it has no kernel for them
DataAndModel load_data_and_model(const Cluster& cluster, const Options& options, const Registry& registry);

/// Returns what makes the metrics of a workload, with the classes and annotations of this data.
trainer::MetricFactory metrics_of(const trainer::Workload& workload, const Data& data);

/// Returns what gives the trainer the graphs of a model for all extents of its data. @param model  outlives the result
trainer::GraphFactory graphs_of(const ModelOnDevice& model);

}  // namespace lockstep::train
