// SPDX-License-Identifier: Apache-2.0
#include "apps/train/data/anchors.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "apps/cli/command_line.hpp"
#include "apps/cli/run_app.hpp"
#include "base/wrapped.hpp"
#include "nn/description/description.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"
#include "state/safetensors_file.hpp"
#include "state/verify.hpp"
#include "workloads/detection/anchors.hpp"

namespace lockstep::train {
namespace {

/// Below it, anchors are made anew for the data.
constexpr double least_recall = 0.98;

std::optional<std::filesystem::path> checkpoint_of(const Options& options) {
  if (options.resume.empty()) return std::nullopt;
  return state::find_checkpoint(options.resume, options.save_dir).path;
}

std::string text_of_anchors(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += (text.empty() ? "" : ",") + cli::text_of(number);
  return text;
}

/// Numbers that are saved as float32, divided by a stride, and read again are the same.
std::vector<double> rounded(std::vector<double> sizes) {
  constexpr double fraction = 256;
  for (double& size : sizes) size = std::max(1.0, std::round(size * fraction)) / fraction;
  return sizes;
}

/// Compares anchors with the boxes to train on, and makes new ones if these fit better.
Anchors fitted(const std::vector<double>& usual, const Options& options, const Pictures& pictures) {
  const std::vector<workloads::BoxSize> boxes = workloads::box_sizes(*pictures.train->source, pictures.input.size);
  const double recall = workloads::best_possible_recall(boxes, usual);
  Anchors anchors{usual, format_text("the best possible recall with the anchors of the model is %.4f of %zu training "
                                     "boxes",
                                     recall, boxes.size())};
  if (boxes.empty()) anchors.text.clear();
  if (recall > least_recall) return anchors;
  const auto found = rounded(workloads::k_means_anchors(boxes, usual.size() / 2, options.trainer.seed));
  const double better = found.empty() ? 0 : workloads::best_possible_recall(boxes, found);
  if (better <= recall) {
    anchors.text += "; anchors by k-means would not be better";
    return anchors;
  }
  return {found, anchors.text + format_text("; with anchors by k-means it is %.4f (--anchors %s)", better,
                                            text_of_anchors(found).c_str())};
}

}  // namespace

AnchorsOfWeights read_anchors_of_run(const World& world, const Options& options, const nn::Models& models) {
  if (models.usual_anchors(options.model).empty() || (options.resume.empty() && options.weights.empty())) return {};
  const Phase phase(world.group(), "reading the anchors of the weights", Phase::Kind::work);
  std::string text;
  std::string is_checkpoint;
  agree_on_rank_zero(world.group(), [&] {
    const auto checkpoint = checkpoint_of(options);
    const std::filesystem::path path =
        checkpoint ? *checkpoint / "model.safetensors" : std::filesystem::path(options.weights);
    if (path.empty()) return;
    const state::SafetensorsReader reader(path, state::ForeignTensors::describe);
    const auto description = nn::description_of(reader.header().metadata(), path.string());
    if (description) text = text_of_anchors(description->data.anchors);
    if (checkpoint) is_checkpoint = "yes";
  });
  text = broadcast_string(world.group(), text, {0});
  is_checkpoint = broadcast_string(world.group(), is_checkpoint, {0});
  return {.sizes = anchors_of(text), .are_of_checkpoint = !is_checkpoint.empty()};
}

Anchors choose_anchors(const Options& options, const nn::Models& models, const Data& data,
                       const AnchorsOfWeights& of_weights) {
  const std::vector<double>& usual = models.usual_anchors(options.model);
  const std::vector<double> listed = anchors_of(options.anchors);
  if (!listed.empty() && listed.size() != usual.size())
    throw UsageError("--anchors " + options.anchors + ": --model " + options.model + " has " +
                     std::to_string(usual.size() / 2) + " anchors, so give " + std::to_string(usual.size()) +
                     " numbers, the width and height of each in pixels, the smallest first");
  if (usual.empty()) return {};
  if (!listed.empty()) return {.sizes = listed, .text = {}};
  const bool is_settled = of_weights.are_of_checkpoint || options.eval_only;
  const bool is_known = !of_weights.sizes.empty();
  if (is_settled && is_known) return {.sizes = of_weights.sizes, .text = {}};
  const std::vector<double>& first = is_known && options.anchors != "default" ? of_weights.sizes : usual;
  const bool is_compared = options.anchors == "auto" && !is_settled && data.pictures && data.pictures->train;
  return is_compared ? fitted(first, options, *data.pictures) : Anchors{first, {}};
}

}  // namespace lockstep::train
