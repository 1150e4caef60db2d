// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "nn/plan/step_plan.hpp"

namespace lockstep::nn {
namespace {

constexpr std::int64_t alignment = 256;  // unit: bytes; what libraries of GPUs need at most

struct Region {
  std::int64_t begin;
  std::int64_t end;
};

std::int64_t rounded(Bytes bytes) { return (bytes.value + alignment - 1) / alignment * alignment; }

bool alive_together(const Lifetime& a, const Lifetime& b) {
  return a.lane != b.lane || (a.first <= b.last && b.first <= a.last);
}

/// Returns the lowest offset with room for `size` between regions, which are sorted by their beginning and may overlap.
std::int64_t first_gap(const std::vector<Region>& taken, std::int64_t size) {
  std::int64_t offset = 0;
  for (const Region& region : taken) {
    if (region.begin - offset >= size) return offset;
    offset = std::max(offset, region.end);
  }
  return offset;
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<std::size_t> placed;
  for (const std::size_t buffer : order) {
    std::vector<Region> taken;
    for (const std::size_t other : placed) {
      if (!alive_together(buffers[buffer], buffers[other])) continue;
      const std::int64_t begin = plan.offsets[other].value;
      taken.push_back({begin, begin + rounded(buffers[other].bytes)});
    }
    std::sort(taken.begin(), taken.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
    const std::int64_t size = rounded(buffers[buffer].bytes);
    const std::int64_t offset = first_gap(taken, size);
    plan.offsets[buffer] = {offset};
    plan.total.value = std::max(plan.total.value, offset + size);
    placed.push_back(buffer);
  }
  return plan;
}

}  // namespace lockstep::nn
