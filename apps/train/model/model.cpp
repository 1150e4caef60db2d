// SPDX-License-Identifier: Apache-2.0
#include "apps/train/model/model.hpp"

#include <algorithm>

#include "apps/cli/run_app.hpp"
#include "apps/train/data/anchors.hpp"
#include "apps/train/data/model_of_run.hpp"
#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/trainer/metric.hpp"
#include "nn/graph/same_model.hpp"
#include "workloads/bundled.hpp"

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

/// Returns the longer side of the images, if there are any; else 0.
std::int64_t image_size(const std::vector<TensorSpec>& tensors) {
  const auto images = std::ranges::find(tensors, "images", &TensorSpec::name);
  return images == tensors.end() ? 0 : std::max(images->extent[1], images->extent[2]);
}

/// What the user chooses of a model.
struct ModelChoices {
  nn::Stem stem = nn::Stem::by_extent;
  std::vector<double> anchors = {};
};

/// Makes the graphs of a model for all extents of the data. The stem, and the size of the images that the run is for,
/// are those of the first ones.
/// @throws Error that says what the model lacks in the data, or in which parameter it depends on the extents
std::vector<nn::Graph> made_for_all(std::string_view model, const nn::Models& models, const data::DatasetPair& data,
                                    const ModelChoices& choices) {
  std::vector<nn::Graph> graphs;
  nn::DataSpec spec{.classes = data.train->classes(), .stem = choices.stem, .anchors = choices.anchors};
  for (std::vector<TensorSpec>& tensors : data::extents_of(data).all) {
    for (TensorSpec& tensor : tensors) tensor.bytes.reset();  // the trainer lets the graph read them
    spec.tensors = tensors;
    if (graphs.empty()) spec.image_size = image_size(tensors);
    graphs.push_back(made(model, models, spec));
    nn::require_same_model(graphs.front(), graphs.back());
    if (graphs.size() == 1) spec.stem = models.stem(model, spec).value_or(nn::Stem::by_extent);
  }
  return graphs;
}

bool can_take(std::string_view model, const nn::Models& models, const data::DatasetPair& data, nn::Stem stem) {
  try {
    (void)made_for_all(model, models, data, {.stem = stem});
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

/// Returns the graphs for all extents of the data. @throws UsageError
std::vector<nn::Graph> model_for_data(const Options& options, const nn::Models& models, const data::DatasetPair& data,
                                      const std::vector<double>& anchors) {
  try {
    return made_for_all(options.model, models, data, {options.stem, anchors});
  } catch (const Error& error) {
    std::vector<std::string_view> others = models.names();
    std::erase_if(others, [&](std::string_view model) { return !can_take(model, models, data, options.stem); });
    throw UsageError(
        "--model " + options.model + " cannot be trained on " + data_option(options) +
        (data.train->extents().size() > 1 ? " with steps of different sizes (--multi-scale)" : "") +
        (others.empty() ? ", and no other model of this program can" : "; use --model " + alternatives(others)) + " (" +
        error.message() + ")");
  }
}

/// @throws UsageError if the program has no such workload
const trainer::Workload& workload_of(const std::string& model, const Registry& registry) {
  const std::string& wanted = registry.models.workload(model);
  const auto found = std::ranges::find(registry.workloads, wanted, &trainer::Workload::name);
  if (found != registry.workloads.end()) return *found;
  std::vector<std::string_view> known;
  for (const trainer::Workload& workload : registry.workloads) known.emplace_back(workload.name);
  throw UsageError("--model " + model + ": " + unknown("workload", wanted, known));
}

/// Returns how users' pictures are read for a workload. For one that has no use for them they are read as for
/// classification, which the model then refuses in words of its own.
const workloads::PictureTask& picture_task(const trainer::Workload& workload) {
  const workloads::PictureTask* task = workloads::picture_task(workload.name);
  return task != nullptr ? *task : *workloads::picture_task("classification");
}

/// @throws UsageError if the model is not of the workload that it names
trainer::Workload::Metrics usable_metrics(const Options& options, const trainer::Workload& workload,
                                          const nn::Graph& graph, const Data& data) {
  try {
    return metrics_of(workload, data)(graph, data.sets.train->tensors());
  } catch (const Error& error) {
    throw UsageError("--model " + options.model + " cannot be evaluated as " + workload.name + ": " + error.message() +
                     ". A model for something else says so (nn::ModelEntry::workload)");
  }
}

/// @throws UsageError if an option names a metric that the model does not have, or asks for classes where it has none
void require_metrics(const Options& options, const trainer::Workload& workload, const nn::Graph& graph,
                     const Data& data) {
  std::vector<std::string> names;
  bool has_classes = false;
  for (const auto& metric : usable_metrics(options, workload, graph, data)) {
    for (const observe::MetricValue& value : metric->values()) names.push_back(value.name);
    has_classes = has_classes || metric->classes() != nullptr;
  }
  if (options.per_class && !has_classes)
    throw UsageError("--per-class: --model " + options.model + " gives no class to an image");
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto require = [&](const std::string& option, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) throw UsageError(option + ": " + unknown("metric", name, known));
  };
  if (!options.trainer.best_metric.empty()) require("--best", options.trainer.best_metric);
  if (options.trainer.early_stop.patience > 0) require("--early-stop", options.trainer.early_stop.metric);
}

/// @throws UsageError
std::vector<nn::Graph> graphs_for_data(const Options& options, const nn::Models& models,
                                       const trainer::Workload& workload, const Data& data) {
  std::vector<nn::Graph> graphs = model_for_data(options, models, data.sets, data.anchors.sizes);
  for (const GraphEdit& edit : options.graph_edits) {
    try {
      for (nn::Graph& graph : graphs) graph = edit.apply(graph);
    } catch (const Error& error) {
      throw UsageError(edit.option + ": " + error.message());
    }
  }
  require_metrics(options, workload, graphs.front(), data);
  return graphs;
}

/// Describes the model for whoever has only its weights later.
nn::ModelDescription description_of(const Options& options, const nn::Models& models, const Data& loaded) {
  const data::Dataset& data = *loaded.sets.train;
  nn::ModelDescription description{
      .model = options.model, .data = {data.tensors(), data.classes(), options.stem}, .class_names = {}};
  description.data.anchors = loaded.anchors.sizes;
  description.class_names = data.class_names();
  if (loaded.pictures) {
    description.transforms = vision::text_of(loaded.pictures->pipelines.evaluation);
    description.category_ids = loaded.pictures->main_part().source->category_ids();
    description.images = loaded.pictures->normalization;
  }
  description.data.stem = models.stem(options.model, description.data).value_or(nn::Stem::by_extent);
  for (std::size_t i = 0; i < description.data.tensors.size(); ++i) {
    const Normalization* numbers = data.bytes_of(i);
    if (description.data.tensors[i].name == "images" && numbers != nullptr) description.images = *numbers;
  }
  return description;
}

std::string variant_of(const nn::ModelDescription& model, const nn::Models& models) {
  nn::DataSpec usual = model.data;
  usual.stem = nn::Stem::by_extent;
  const nn::Stem stem = model.data.stem;
  if (stem == models.stem(model.model, usual).value_or(nn::Stem::by_extent)) return {};
  return std::string(" with the stem of ") + (stem == nn::Stem::cifar ? "cifar" : "imagenet");
}

/// Names what this rank loads, for messages. The folder may differ between ranks.
std::string loading(const Cluster& cluster, const Options& options) {
  if (!options.user_data.path.empty())
    return cluster.same_data_dir ? "reading the pictures in '" + echo(options.user_data.path, 400) + "'"
                                 : "reading the pictures of its --data";
  const std::string text = "loading the data set '" + options.dataset + "'";
  if (!cluster.same_data_dir) return text + " from its --data-dir";
  return text + (options.data_dir.empty() ? "" : " from '" + echo(options.data_dir, 400) + "'");
}

/// @throws Error on every rank, as load_data_and_model
void require_agreement(const World& world, const Agreement& agreement, const Data& data) {
  agreement.throw_failed_checks();
  try {
    (void)agreement.require_equal_terms();
  } catch (const Error& error) {
    const std::string first = data.pictures ? difference_text(*data.pictures, world) : "";
    throw Error(ErrorCode::mismatch,
                error.message() + (first.empty() ? "" : "; " + first) + "; give all ranks the same files (" +
                    (data.pictures ? "--data)" : "--data-dir)"),
                error.context())
        .on_every_rank();
  }
  cli::refuse_mistakes(world, agreement.fact("mistake"));
}

}  // namespace

trainer::MetricFactory metrics_of(const trainer::Workload& workload, const Data& data) {
  const workloads::PictureTask* task = workloads::picture_task(workload.name);
  if (data.pictures && task != nullptr && task->metrics != nullptr) {
    const Pictures& pictures = *data.pictures;
    return [make = task->metrics, source = (pictures.val ? *pictures.val : *pictures.train).samples,
            inputs = workloads::input_sizes(*data.sets.test)](const nn::Graph& graph,
                                                              const std::vector<TensorSpec>& tensors) {
      return make({.graph = graph, .tensors = tensors, .classes = std::ssize(source->class_names()), .inputs = inputs},
                  source);
    };
  }
  return [make = workload.metrics, names = data.sets.test->class_names()](
             const nn::Graph& graph, const std::vector<TensorSpec>& tensors) { return make(graph, tensors, names); };
}

DataAndModel load_data_and_model(const Cluster& cluster, const Options& options, const Registry& registry) {
  const RankSet& group = cluster.world.group();
  const Phase phase(group, loading(cluster, options), Phase::Kind::work);
  const trainer::Workload& workload = workload_of(options.model, registry);
  const std::optional<nn::ModelDescription> known = read_model_of_run(cluster.world, options);
  const AnchorsOfWeights anchors = read_anchors_of_run(cluster.world, options, registry.models);
  Agreement agreement;
  Data data;
  agreement.add_check([&] {
    data = load_data(cluster, options, registry.datasets, picture_task(workload), known,
                     registry.models.example(options.model), agreement);
  });
  group_evaluated(cluster, options, picture_task(workload), data);
  std::vector<nn::Graph> graphs;
  nn::ModelDescription description;
  try {
    if (data.sets.train != nullptr) {
      fit_to_run(cluster, options, picture_task(workload), data);
      data.anchors = choose_anchors(options, registry.models, data, anchors);
      for (const double size : data.anchors.sizes) agreement.add({{"anchor", cli::text_of(size)}});
      const Phase making(group, "making the model '" + options.model + "'", Phase::Kind::work);
      graphs = graphs_for_data(options, registry.models, workload, data);
      description = description_of(options, registry.models, data);
    }
  } catch (const UsageError& error) {
    agreement.add_fact("mistake", error.what());
  }
  {
    const Phase comparing(group, loading(cluster, options), Phase::Kind::work, hashing_time(options, data.sets));
    agreement.exchange(group);
  }
  require_agreement(cluster.world, agreement, data);
  use_cache(cluster, options, data);
  DeviceChoice device = device_for(graphs.front(), options, cluster.device);
  nn::Graph graph = std::move(graphs.front());
  graphs.erase(graphs.begin());
  std::string variant = variant_of(description, registry.models);
  return {std::move(data),
          {.workload = workload,
           .graph = std::move(graph),
           .others = std::move(graphs),
           .device = std::move(device),
           .description = std::move(description),
           .variant = std::move(variant)}};
}

trainer::GraphFactory graphs_of(const ModelOnDevice& model) {
  return [&model](const std::vector<TensorSpec>& tensors) {
    const auto takes = [&](const nn::Graph& graph) {
      return std::ranges::all_of(graph.inputs(), [&](const TensorSpec& input) {
        const auto tensor = std::ranges::find(tensors, input.name, &TensorSpec::name);
        return tensor != tensors.end() && tensor->extent == input.extent;
      });
    };
    const auto found = std::ranges::find_if(model.others, takes);
    return found == model.others.end() ? model.graph : *found;
  };
}

}  // namespace lockstep::train
