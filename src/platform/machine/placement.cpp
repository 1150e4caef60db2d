// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/placement.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {
namespace {

/// One of the sets in which the ranks bound within it have more threads than it has members; nothing where all fit.
/// The union of all sets is examined too.
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

std::vector<std::size_t> smallest_first(std::span<const CpuSet> sets) {
  std::vector<std::size_t> order(sets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [sets](std::size_t a, std::size_t b) { return sets[a].size() < sets[b].size(); });
  return order;
}

std::vector<std::optional<int>> assign_distinct_gpus(std::span<const Gpu> visible, std::span<const CpuSet> bound) {
  std::vector<std::optional<int>> assigned(bound.size());
  std::vector<bool> free(visible.size(), true);
  const auto take_first = [&](std::size_t rank, bool near_only) {
    for (std::size_t gpu = 0; gpu < visible.size() && !assigned[rank]; ++gpu) {
      if (!free[gpu] || (near_only && !visible[gpu].near_pus.intersects(bound[rank]))) continue;
      free[gpu] = false;
      assigned[rank] = static_cast<int>(gpu);
    }
  };
  for (const std::size_t rank : smallest_first(bound)) take_first(rank, true);
  for (std::size_t rank = 0; rank < bound.size(); ++rank) take_first(rank, false);
  return assigned;
}

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

std::vector<std::optional<int>> assign_gpus(std::span<const Gpu> visible, std::span<const CpuSet> bound) {
  if (visible.empty()) return std::vector<std::optional<int>>(bound.size());
  if (bound.size() <= visible.size() && visible.size() > 1) return assign_distinct_gpus(visible, bound);
  std::vector<std::optional<int>> assigned;
  for (std::size_t rank = 0; rank < bound.size(); ++rank)
    assigned.emplace_back(static_cast<int>(rank % visible.size()));
  return assigned;
}

bool oversubscribed(std::span<const CpuSet> bound, int threads_per_rank) {
  // A single rank may outnumber its own processing units too: its threads then take turns.
  const bool alone =
      std::any_of(bound.begin(), bound.end(), [&](const CpuSet& s) { return threads_per_rank > s.size(); });
  return alone || crowded_set(bound, threads_per_rank).has_value();
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

}  // namespace lockstep
