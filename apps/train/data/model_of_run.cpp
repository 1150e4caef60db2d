// SPDX-License-Identifier: Apache-2.0
#include "apps/train/data/model_of_run.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"
#include "state/safetensors_file.hpp"
#include "state/verify.hpp"

namespace lockstep::train {

namespace {

std::filesystem::path file_of_weights(const Options& options) {
  if (options.resume.empty()) return options.weights;
  return state::find_checkpoint(options.resume, options.save_dir).path.value() / "model.safetensors";
}

/// @throws Error{unsupported} unless a description says all that a prediction needs
void require_pictures(const std::optional<nn::ModelDescription>& description, const std::string& path) {
  if (description && description->images && description->data.tensors.front().name == "images") return;
  throw Error(ErrorCode::unsupported,
              "'" + echo(path, 400) +
                  "' is not a file of train for a model that classifies pictures, or an older "
                  "lockstep has written it: continue its run with train --resume PATH, which saves one that says so");
}

}  // namespace

std::optional<nn::ModelDescription> read_model_of_run(const World& world, const Options& options) {
  const bool predicts = !options.predict.empty();
  const bool evaluates_pictures = options.eval_only && !options.user_data.path.empty();
  if (!predicts && (!evaluates_pictures || (options.resume.empty() && options.weights.empty()))) return {};
  const Phase phase(world.group(),
                    predicts ? "reading the checkpoint to predict with" : "reading the checkpoint to evaluate",
                    Phase::Kind::work);
  std::string path;
  std::string text;
  agree_on_rank_zero(world.group(), [&] {
    path = file_of_weights(options).string();
    const state::SafetensorsReader reader(path, state::ForeignTensors::describe);
    const nn::Metadata& metadata = reader.header().metadata();
    if (predicts) require_pictures(nn::description_of(metadata, path), path);
    text = nlohmann::json(metadata).dump();
  });
  text = broadcast_string(world.group(), text, {0});
  return nn::description_of(nlohmann::json::parse(text).get<nn::Metadata>(), path);
}

}  // namespace lockstep::train
