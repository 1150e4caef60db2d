// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/rank_warnings.hpp"

#include <algorithm>

namespace lockstep {
namespace {

/// The ranks that may run only on some PUs.
struct Crowd {
  CpuSet pus;
  std::vector<int> ranks;
  int threads = 0;
  bool spins = false;
};

Crowd crowd_within(const CpuSet& pus, std::span<const RankUse> ranks) {
  Crowd crowd{.pus = pus};
  for (const RankUse& rank : ranks) {
    if (!pus.includes(rank.pus)) continue;
    crowd.ranks.push_back(rank.rank);
    crowd.threads += rank.threads;
    crowd.spins = crowd.spins || (rank.spins && rank.threads > 1);
  }
  return crowd;
}

/// Returns the first crowd with more threads than PUs. The union of all ranks' PUs is examined last.
std::optional<Crowd> too_many_threads(std::span<const RankUse> ranks) {
  CpuSet all;
  std::vector<CpuSet> candidates;
  for (const RankUse& rank : ranks) {
    candidates.push_back(rank.pus);
    all = all | rank.pus;
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
  candidates.push_back(all);
  for (const CpuSet& pus : candidates) {
    Crowd crowd = crowd_within(pus, ranks);
    if (crowd.threads > pus.size()) return crowd;
  }
  return std::nullopt;
}

std::string names(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + CpuSet(ranks).text();
}

std::string text_of(const Crowd& crowd) {
  std::string text = names(crowd.ranks) + (crowd.ranks.size() == 1 ? " has " : " have ") +
                     std::to_string(crowd.threads) + " threads on " + std::to_string(crowd.pus.size()) +
                     (crowd.pus.size() == 1 ? " processor (" : " processors (") + crowd.pus.text() +
                     "), which take turns; ";
  if (crowd.spins) text += "OpenMP's threads spin while they wait: set OMP_WAIT_POLICY=passive, or ";
  return text + (static_cast<std::size_t>(crowd.threads) > crowd.ranks.size() ? "give each rank fewer threads"
                                                                              : "start fewer ranks there");
}

}  // namespace

std::vector<std::string> crowding_warnings(const Topology& topology, std::span<const RankUse> ranks) {
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < ranks.size() && warnings.empty(); ++i) {
    for (std::size_t j = i + 1; j < ranks.size() && warnings.empty(); ++j) {
      const CpuSet a = topology.cores_of(ranks[i].pus);
      const CpuSet b = topology.cores_of(ranks[j].pus);
      if (a.includes(b) || b.includes(a) || !a.intersects(b)) continue;
      warnings.push_back(names({ranks[i].rank, ranks[j].rank}) + " are bound to cores " + a.text() + " and " +
                         b.text() + ", which overlap: start with `mpirun --bind-to none`, or bind each rank to cores " +
                         "of its own (`--map-by slot:PE=N`; srun: `--cpu-bind=cores`)");
    }
  }
  if (const auto crowd = too_many_threads(ranks)) warnings.push_back(text_of(*crowd));
  return warnings;
}

std::vector<std::string> distant_gpu_warnings(std::span<const RankUse> ranks) {
  std::vector<std::string> warnings;
  for (const RankUse& rank : ranks) {
    if (rank.near_gpu.empty() || rank.near_gpu.intersects(rank.pus)) continue;
    warnings.push_back(names({rank.rank}) + " is bound to processors " + rank.pus.text() +
                       ", far from its GPU, which is attached to " + rank.near_gpu.text() +
                       ": start with `mpirun --bind-to none`, or list the GPUs in another order");
  }
  return warnings;
}

}  // namespace lockstep
