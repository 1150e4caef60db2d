// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/placement.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>

namespace lockstep {
namespace {

/// Returns one of the sets in which the bound ranks have more threads than the set has members; nothing if all fit. The
/// union of all sets is examined too.
std::optional<CpuSet> crowded_set(std::span<const CpuSet> sets, int threads_per_rank) {
  std::vector<CpuSet> candidates(sets.begin(), sets.end());
  candidates.push_back(
      std::accumulate(sets.begin(), sets.end(), CpuSet(), [](const CpuSet& a, const CpuSet& b) { return a | b; }));
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const CpuSet& candidate : candidates) {
    const auto inside = std::count_if(sets.begin(), sets.end(), [&](const CpuSet& s) { return candidate.includes(s); });
    if (inside > 1 && inside * threads_per_rank > candidate.size()) return candidate;
  }
  return std::nullopt;
}

std::vector<std::size_t> smallest_first(std::span<const GpuChoices> ranks) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [ranks](std::size_t a, std::size_t b) { return ranks[a].bound.size() < ranks[b].bound.size(); });
  return order;
}

/// Assigns GPUs to ranks, none twice. Each rank that sees a GPU gets one, if there are enough.
class DistinctGpus {
 public:
  explicit DistinctGpus(std::span<const GpuChoices> ranks) : ranks_(ranks), assigned_(ranks.size()) {
    for (const std::size_t rank : smallest_first(ranks)) take_free(rank, true);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) take_free(rank, false);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::set<Identity> asked_for;
      if (!assigned_[rank]) take_over(rank, asked_for);
    }
  }

  [[nodiscard]] const std::vector<std::optional<int>>& assigned() const { return assigned_; }

 private:
  /// The values by which runtimes and drivers identify a GPU.
  using Identity = std::pair<std::string, std::string>;
  [[nodiscard]] Identity identity(std::size_t rank, std::size_t gpu) const {
    return {ranks_[rank].visible[gpu].pci_bus_id, ranks_[rank].visible[gpu].uuid};
  }

  void take(std::size_t rank, std::size_t gpu) {
    assigned_[rank] = static_cast<int>(gpu);
    owners_[identity(rank, gpu)] = rank;
  }

  void take_free(std::size_t rank, bool near_only) {
    const auto& [visible, bound] = ranks_[rank];
    for (std::size_t gpu = 0; gpu < visible.size() && !assigned_[rank]; ++gpu) {
      if (near_only && !visible[gpu].near_pus.intersects(bound)) continue;
      if (!owners_.contains(identity(rank, gpu))) take(rank, gpu);
    }
  }

  /// Called if all GPUs that the rank sees are taken: takes one of them if its owner can take another one. This
  /// searches an augmenting path of the matching.
  /// @param asked_for  GPUs that the search has already tried
  bool take_over(std::size_t rank, std::set<Identity>& asked_for) {
    for (std::size_t gpu = 0; gpu < ranks_[rank].visible.size(); ++gpu) {
      if (!asked_for.insert(identity(rank, gpu)).second) continue;
      const auto owner = owners_.find(identity(rank, gpu));
      if (owner != owners_.end() && !take_over(owner->second, asked_for)) continue;
      take(rank, gpu);
      return true;
    }
    return false;
  }

  std::span<const GpuChoices> ranks_;
  std::vector<std::optional<int>> assigned_;
  std::map<Identity, std::size_t> owners_;
};

/// CUDA prints bus ids in upper case, hwloc in lower case.
std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

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

std::vector<std::optional<int>> assign_gpus(std::span<const GpuChoices> ranks) {
  std::vector<std::optional<int>> assigned = DistinctGpus(ranks).assigned();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::size_t gpus = ranks[rank].visible.size();
    if (!assigned[rank] && gpus > 0) assigned[rank] = static_cast<int>(rank % gpus);
  }
  return assigned;
}

std::vector<Gpu> locate_gpus(std::vector<Gpu> seen, std::span<const Gpu> known) {
  for (Gpu& gpu : seen) {
    gpu.pci_bus_id = lower_case(gpu.pci_bus_id);
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const Gpu& k) { return lower_case(k.pci_bus_id) == gpu.pci_bus_id; });
    if (same == known.end()) continue;
    gpu.near_pus = same->near_pus;
    if (gpu.name.empty()) gpu.name = same->name;
    if (gpu.vendor.empty()) gpu.vendor = same->vendor;
    if (gpu.model.empty()) gpu.model = same->model;
    if (gpu.uuid.empty()) gpu.uuid = same->uuid;
  }
  return seen;
}

bool oversubscribed(std::span<const CpuSet> bound, int threads_per_rank) {
  // A single rank may also have more threads than processing units; its threads then take turns.
  const bool alone =
      std::any_of(bound.begin(), bound.end(), [&](const CpuSet& s) { return threads_per_rank > s.size(); });
  return alone || crowded_set(bound, threads_per_rank).has_value();
}

int ranks_per_cache(std::span<const CpuSet> caches) {
  const auto ranks = static_cast<int>(caches.size());
  if (ranks < least_ranks_by_cache) return 0;
  int balanced = 1;
  while (balanced * balanced < ranks) balanced *= 2;
  int sharing = 1;  // the most ranks that share a cache, if the ranks are divided evenly
  const auto cache_of = [&](int rank) -> const CpuSet& { return caches[static_cast<std::size_t>(rank)]; };
  const auto all_share = [&](int width) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int first = rank / width * width;
      if (cache_of(rank).empty() || cache_of(rank) != cache_of(first)) return false;
    }
    return true;
  };
  while (2 * sharing <= ranks && all_share(2 * sharing)) sharing *= 2;
  int width = 2 * sharing >= balanced && sharing <= 2 * balanced ? sharing : balanced;
  constexpr int least = 4;
  for (int divisor = width; divisor >= least; divisor /= 2)
    if (ranks % divisor == 0) return divisor;
  return width;
}

std::optional<std::string> binding_warning(const Topology& topology, std::span<const int> ranks,
                                           std::span<const CpuSet> bound) {
  std::vector<CpuSet> cores;
  CpuSet used;
  for (const CpuSet& pus : bound) {
    cores.push_back(topology.cores_of(pus));
    used = used | cores.back();
  }
  const int idle = static_cast<int>(topology.cores.size()) - used.size();
  const auto crowded = crowded_set(cores, 1);
  if (!crowded || idle == 0) return std::nullopt;
  std::vector<int> sharing;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (crowded->includes(cores[i])) sharing.push_back(ranks[i]);
  }
  return "ranks " + list(sharing) + " are bound to the same " + (crowded->size() == 1 ? "core " : "cores ") +
         crowded->text() + " while " + std::to_string(idle) + " of " + std::to_string(topology.cores.size()) +
         " cores have no rank: they take turns and wait for each other; start with `mpirun --bind-to none`, or spread "
         "them with `--map-by core` (srun: `--cpu-bind=none`)";
}

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
