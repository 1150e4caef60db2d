// SPDX-License-Identifier: Apache-2.0
#include "apps/train/model/model.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/cli/same_options.hpp"
#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/trainer/metric.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep::train {
namespace {

/// @throws Error that says what the model lacks in the data
nn::Graph made(std::string_view model, const nn::Models& models, const nn::DataSpec& data) {
  nn::Graph graph = models.make(model, data);
  graph.check();
  for (const TensorSpec& input : graph.inputs()) {
    if (data.at(input.name) == input) continue;
    throw Error(ErrorCode::invalid_argument,
                "the data's '" + input.name + "' is not of the shape that the model takes");
  }
  return graph;
}

bool can_take(std::string_view model, const nn::Models& models, const nn::DataSpec& data) {
  try {
    (void)made(model, models, data);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Joins words as "a, b or c".
std::string alternatives(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

/// @throws UsageError
nn::Graph model_for_data(const Options& options, const nn::Models& models, const nn::DataSpec& data) {
  try {
    return made(options.model, models, data);
  } catch (const Error& error) {
    std::vector<std::string_view> others = models.names();
    std::erase_if(others, [&](std::string_view model) { return !can_take(model, models, data); });
    throw UsageError(
        "--model " + options.model + " cannot be trained on --dataset " + options.dataset +
        (others.empty() ? ", and no other model of this program can" : "; use --model " + alternatives(others)) + " (" +
        error.message() + ")");
  }
}

/// @throws UsageError if an option names a metric that the model does not have
void require_metrics(const Options& options, const nn::Graph& graph, const nn::DataSpec& data) {
  std::vector<std::string> names;
  for (const auto& metric : trainer::make_metrics(graph, data.tensors))
    for (const observe::MetricValue& value : metric->values()) names.push_back(value.name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto require = [&](const std::string& option, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw UsageError(option + ": " + unknown("metric", name, known));
  };
  if (!options.trainer.best_metric.empty()) require("--best", options.trainer.best_metric);
  if (options.trainer.early_stop.patience > 0) require("--early-stop", options.trainer.early_stop.metric);
}

/// @throws UsageError
nn::Graph graph_for_data(const Options& options, const nn::Models& models, const nn::DataSpec& data) {
  nn::Graph graph = model_for_data(options, models, data);
  for (const GraphEdit& edit : options.graph_edits) {
    try {
      graph = edit.apply(graph);
    } catch (const Error& error) {
      throw UsageError(edit.option + ": " + error.message());
    }
  }
  require_metrics(options, graph, data);
  return graph;
}

}  // namespace

ModelOnDevice make_model(const Cluster& cluster, const Options& options, const Data& data, const nn::Models& models) {
  std::optional<nn::Graph> graph;
  std::string mistake;
  {
    const Phase phase(cluster.world.group(), "making the model '" + options.model + "'", Phase::Kind::work);
    try {
      graph = graph_for_data(options, models, {data.sets.train->tensors(), data.sets.train->classes()});
    } catch (const UsageError& error) {
      mistake = error.what();
    }
    cli::require_no_mistake(cluster.world, mistake);
  }
  DeviceChoice device = device_for(*graph, options, cluster.device);
  return {.graph = *std::move(graph), .device = std::move(device)};
}

}  // namespace lockstep::train
