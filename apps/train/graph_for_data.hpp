// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/train/options.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/models.hpp"

namespace lockstep::train {

/// Makes the graph of the model that the options name, for the data set that they name, and applies
/// `Options::graph_edits`.
/// @throws UsageError if the model cannot take such data, which names both, the reason and the models that can; or that
///         names an option that cannot be applied to the model
nn::Graph graph_for_data(const Options& options, const nn::Models& models, const nn::DataSpec& data);

}  // namespace lockstep::train
