// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/placement_facts.hpp"

#include <nlohmann/json.hpp>

#include "platform/machine/topology_json.hpp"

namespace lockstep {

using nlohmann::json;

void add_gpu_choices(Agreement& agreement, const Topology& topology) {
  agreement.add_fact("GPUs", json{{"bound", topology.bound_pus}, {"gpus", topology.gpus}}.dump());
}

std::vector<GpuChoices> gpu_choices(const Agreement& agreement) {
  std::vector<GpuChoices> all;
  for (const std::string& text : agreement.fact("GPUs")) {
    const json record = json::parse(text);
    all.push_back({.visible = record.at("gpus"), .bound = record.at("bound")});
  }
  return all;
}

void add_binding(Agreement& agreement) { agreement.add_fact("processors", bound_pus().text()); }

bool take_turns(const Agreement& agreement) {
  std::vector<CpuSet> bound;
  for (const std::string& text : agreement.fact("processors")) bound.push_back(CpuSet::parse(text));
  return oversubscribed(bound);
}

}  // namespace lockstep
