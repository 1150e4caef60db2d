// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "data/idx_files.hpp"

namespace lockstep::train {

/// What a run leaves at its end, without anything that depends on time, on starts or on the number of ranks.
struct Remains {
  std::string model;
  std::string optimizer;
  nlohmann::json position;       ///< sections of state.json: counters, sums of losses, evaluations
  std::set<std::string> events;  ///< of each step and epoch
  nlohmann::json end;            ///< the last event
};

inline Remains remains_of(const std::filesystem::path& run_folder) {
  const std::filesystem::path last = run_folder / "checkpoints" / "last";
  Remains remains{.model = data::read_all(last / "model.safetensors"),
                  .optimizer = data::read_all(last / "optimizer.safetensors")};
  const auto sections = nlohmann::json::parse(data::read_all(last / "state.json")).at("sections");
  for (const char* name : {"run", "best", "evaluation"}) remains.position[name] = sections.at(name);
  std::ifstream metrics(run_folder / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_discarded()) continue;  // a kill has cut it off
    for (const char* key :
         {"seconds", "images_per_second", "exposed_communication_seconds", "data_wait_seconds", "compute_seconds",
          "evaluation_seconds", "slow_ranks", "optimizer_bytes", "time", "steps_of_start"})
      event.erase(key);
    const bool is_of_part = event.at("event") == "epoch" && event.at("val_loss").is_null();  // a signal stopped it
    if (event.at("event") == "step" || (event.at("event") == "epoch" && !is_of_part))
      remains.events.insert(event.dump());
    if (event.at("event") == "end") remains.end = event;
  }
  return remains;
}

}  // namespace lockstep::train
