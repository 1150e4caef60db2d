// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models.hpp"

#include <algorithm>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "nn/models/blocks.hpp"

namespace lockstep::nn {

const TensorSpec& DataSpec::at(std::string_view tensor) const {
  const auto found = std::ranges::find(tensors, tensor, &TensorSpec::name);
  if (found != tensors.end()) return *found;
  std::string names;
  for (const TensorSpec& spec : tensors) names += (names.empty() ? "" : ", ") + spec.name;
  throw Error(ErrorCode::invalid_argument,
              "the data set has no '" + std::string(tensor) + "', which the model needs; it has " + names);
}

DataSpec DataSpec::of_images(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes) {
  return {{{"images", {channels, height, width}}, {"labels", {1, 1, 1}, Content::integer}}, classes};
}

void classify(Graph& graph, const DataSpec& data) {
  const int logits = graph.last();
  if (graph.shape(logits).channels != data.classes) {
    throw Error(ErrorCode::invalid_argument,
                "model '" + graph.name() + "' has " + std::to_string(graph.shape(logits).channels) +
                    " logits for a data set of " + std::to_string(data.classes) + " classes");
  }
  graph.output("logits", logits);
  graph.loss("loss", CrossEntropy{}, {logits, graph.input(data.at("labels"))});
}

Models::Models() : entries_(models::bundled()) { std::ranges::sort(entries_, {}, &ModelEntry::name); }

void Models::add(ModelEntry entry) {
  if (std::ranges::find(entries_, entry.name, &ModelEntry::name) != entries_.end()) {
    throw Error(ErrorCode::invalid_argument, "there is a model '" + entry.name + "' already; give yours another name");
  }
  entries_.push_back(std::move(entry));
}

std::vector<std::string_view> Models::names() const {
  std::vector<std::string_view> names;
  for (const ModelEntry& entry : entries_) names.emplace_back(entry.name);
  return names;
}

const ModelEntry& Models::at(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &ModelEntry::name);
  if (found == entries_.end()) throw Error(ErrorCode::invalid_argument, unknown("model", name, names()));
  return *found;
}

const Defaults& Models::defaults(std::string_view name) const { return at(name).defaults; }
const DataSpec& Models::example(std::string_view name) const { return at(name).example; }
const std::string& Models::workload(std::string_view name) const { return at(name).workload; }
const std::vector<double>& Models::usual_anchors(std::string_view name) const { return at(name).usual_anchors; }

std::optional<Stem> Models::stem(std::string_view name, const DataSpec& data) const {
  const std::optional<Stem> usual = at(name).usual_stem;
  if (usual && data.stem != Stem::by_extent) return data.stem;
  if (usual != Stem::by_extent) return usual;
  constexpr std::int64_t least_of_photographs = 64;
  const auto& [channels, height, width] = data.at("images").extent;
  return std::min(height, width) < least_of_photographs ? Stem::cifar : Stem::imagenet;
}

Graph Models::make(std::string_view name, const DataSpec& data) const {
  DataSpec spec = data;
  spec.stem = stem(name, data).value_or(Stem::by_extent);
  return at(name).make(spec);
}

Graph make_model(std::string_view name, const DataSpec& data) { return Models().make(name, data); }

}  // namespace lockstep::nn
