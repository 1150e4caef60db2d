// SPDX-License-Identifier: Apache-2.0
#include "apps/train/data/model_of_run.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"
#include "state/safetensors_file.hpp"
#include "state/verify.hpp"

namespace lockstep::train {

nn::ModelDescription read_model_of_run(const World& world, const Options& options) {
  const Phase phase(world.group(), "reading the checkpoint to predict with", Phase::Kind::work);
  std::string path;
  std::string text;
  agree_on_rank_zero(world.group(), [&] {
    path = (state::find_checkpoint(options.resume, options.save_dir).path.value() / "model.safetensors").string();
    const state::SafetensorsReader reader(path, state::ForeignTensors::describe);
    const auto description = nn::description_of(reader.header().metadata(), path);
    if (!description || !description->images || description->data.tensors.front().name != "images")
      throw Error(
          ErrorCode::unsupported,
          "'" + echo(path, 400) +
              "' is not a file of train for a model that classifies pictures, or an older "
              "lockstep has written it: continue its run with train --resume PATH, which saves one that says so");
    text = nlohmann::json(reader.header().metadata()).dump();
  });
  text = broadcast_string(world.group(), text, {0});
  return nn::description_of(nlohmann::json::parse(text).get<nn::Metadata>(), path).value();
}

}  // namespace lockstep::train
