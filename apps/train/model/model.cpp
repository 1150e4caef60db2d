// SPDX-License-Identifier: Apache-2.0
#include "apps/train/model/model.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/cli/run_app.hpp"
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

/// Names what this rank loads, for messages. The folder may differ between ranks.
std::string loading(const Cluster& cluster, const Options& options) {
  const std::string text = "loading the data set '" + options.dataset + "'";
  if (!cluster.same_data_dir) return text + " from its --data-dir";
  return text + (options.data_dir.empty() ? "" : " from '" + echo(options.data_dir, 400) + "'");
}

/// @throws Error on every rank, as load_data_and_model
void require_agreement(const World& world, const Agreement& agreement) {
  agreement.throw_failed_checks();
  try {
    (void)agreement.require_equal_terms();
  } catch (const Error& error) {
    throw Error(ErrorCode::mismatch, error.message() + "; give all ranks the same files (--data-dir)", error.context())
        .on_every_rank();
  }
  cli::refuse_mistakes(world, agreement.fact("mistake"));
}

}  // namespace

DataAndModel load_data_and_model(const Cluster& cluster, const Options& options, const Registry& registry) {
  const MpiGroup& group = cluster.world.group();
  const Phase phase(group, loading(cluster, options), Phase::Kind::work);
  Agreement agreement;
  Data data;
  agreement.add_check([&] { data = load_data(cluster, options, registry.datasets, agreement); });
  std::optional<nn::Graph> graph;
  try {
    if (data.sets.train != nullptr) {
      fit_to_run(cluster, options, data);
      const Phase making(group, "making the model '" + options.model + "'", Phase::Kind::work);
      graph = graph_for_data(options, registry.models, {data.sets.train->tensors(), data.sets.train->classes()});
    }
  } catch (const UsageError& error) {
    agreement.add_fact("mistake", error.what());
  }
  {
    const Phase comparing(group, loading(cluster, options), Phase::Kind::work, hashing_time(options, data.sets));
    agreement.exchange(group);
  }
  require_agreement(cluster.world, agreement);
  DeviceChoice device = device_for(*graph, options, cluster.device);
  return {std::move(data), {.graph = *std::move(graph), .device = std::move(device)}};
}

}  // namespace lockstep::train
