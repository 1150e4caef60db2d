// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/algorithms/operations.hpp"
#include "collectives/proof/cache_lines.hpp"
#include "platform/machine/placement.hpp"

namespace lockstep::collectives {

/// Returns by how many lockstep divides the ranks of a node, each bound to a core.
inline int ranks_of_a_cache(int ranks, const NodeModel& model) {
  std::vector<CpuSet> caches;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> pus;
    for (int core = 0; core < model.cores_per_cache; ++core)
      pus.push_back(rank / model.cores_per_cache * model.cores_per_cache + core);
    caches.emplace_back(std::move(pus));
  }
  return ranks_per_cache(caches);
}

/// Returns the simulated time of an all-reduce of float32 in place, as lockstep runs it: pulled up to 4 KiB that a rank
/// reads, otherwise in blocks of 256 KiB, here one after the other.
/// @param ranks_per_cache  0: not by cache
inline double seconds_on_node(int ranks, std::int64_t bytes, Reach reach, int ranks_per_cache, const NodeModel& model) {
  constexpr std::int64_t element_bytes = 4;
  constexpr std::int64_t pull_limit = 4096;
  constexpr std::int64_t block_bytes = 256 * 1024;
  const int read = ranks_per_cache > 0 ? ranks_per_cache + ranks / ranks_per_cache : ranks - 1;
  if (read * bytes <= pull_limit) reach = Reach::pulled;
  const auto of = [&](std::int64_t block) {
    std::vector<Plan> plans;
    for (int rank = 0; rank < ranks; ++rank)
      plans.push_back(make_plan({rank},
                                {.ranks = ranks,
                                 .count = {block / element_bytes},
                                 .own = {.in_place = true},
                                 .reach = reach,
                                 .ranks_per_cache = ranks_per_cache},
                                ranks_per_cache > 0 ? Algorithm::hierarchical_tree_order : Algorithm::shared_memory));
    return node_seconds(plans, element_bytes, ranks * bytes, model);
  };
  const std::int64_t blocks = bytes / block_bytes;
  const std::int64_t rest = bytes % block_bytes;
  return (blocks > 0 ? static_cast<double>(blocks) * of(block_bytes) : 0) + (rest > 0 ? of(rest) : 0);
}

}  // namespace lockstep::collectives
