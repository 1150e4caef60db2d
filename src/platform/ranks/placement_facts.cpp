// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/placement_facts.hpp"

#include <nlohmann/json.hpp>

#include "platform/machine/topology_json.hpp"

namespace lockstep {

using nlohmann::json;

namespace {

std::vector<CpuSet> cpu_sets(const Agreement& agreement, const std::string& fact) {
  std::vector<CpuSet> sets;
  for (const std::string& text : agreement.fact(fact)) sets.push_back(CpuSet::parse(text));
  return sets;
}

}  // namespace

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

void add_binding(Agreement& agreement, int ranks) {
  const CpuSet bound = bound_pus();
  agreement.add_fact("processors", bound.text());
  if (ranks >= least_ranks_by_cache) agreement.add_fact("cache", last_level_cache(discover_caches(), bound).text());
}

bool take_turns(const Agreement& agreement) { return oversubscribed(cpu_sets(agreement, "processors")); }

int ranks_per_cache(const Agreement& agreement) { return ranks_per_cache(cpu_sets(agreement, "cache")); }

}  // namespace lockstep
