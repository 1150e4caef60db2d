// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/placement_facts.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "platform/machine/topology_json.hpp"

namespace lockstep {

using nlohmann::json;

namespace {

std::vector<CpuSet> cpu_sets(const Agreement& agreement, const std::string& fact) {
  std::vector<CpuSet> sets;
  for (const std::string& text : agreement.fact(fact)) sets.push_back(CpuSet::parse(text));
  return sets;
}

std::vector<CpuSet> those_of(std::span<const int> ranks, std::span<const CpuSet> all) {
  std::vector<CpuSet> sets;
  for (const int rank : ranks) sets.push_back(all[static_cast<std::size_t>(rank)]);
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

void add_binding(Agreement& agreement, int ranks_of_node) {
  const CpuSet bound = bound_pus();
  agreement.add_fact("processors", bound.text());
  if (ranks_of_node < least_ranks_by_cache) return;
  static const std::vector<Cache> caches = discover_caches();  // a process may make many groups
  agreement.add_fact("cache", last_level_cache(caches, bound).text());
}

bool take_turns(const Agreement& agreement) { return oversubscribed(cpu_sets(agreement, "processors")); }

int ranks_per_cache(const Agreement& agreement, const ClusterShape& shape) {
  const std::vector<CpuSet> bound = cpu_sets(agreement, "processors");
  const std::vector<CpuSet> caches = cpu_sets(agreement, "cache");
  std::optional<int> width;
  for (int node = 0; node < shape.nodes(); ++node) {
    const std::vector<int> ranks = shape.ranks_on(node);
    const int here = oversubscribed(those_of(ranks, bound)) ? 0 : ranks_per_cache(those_of(ranks, caches));
    if (width.value_or(here) != here) return 0;
    width = here;
  }
  return *width;
}

}  // namespace lockstep
