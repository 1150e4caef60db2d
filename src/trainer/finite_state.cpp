// SPDX-License-Identifier: Apache-2.0
#include "trainer/finite_state.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/finite.hpp"
#include "lockstep/base/error.hpp"
#include "trainer/checkpoint_layout.hpp"
#include "trainer/resume.hpp"

namespace lockstep::trainer {
namespace {

/// Returns this rank's parts of everything that a checkpoint holds.
std::vector<StoredPart> all_parts(const Store& store, const CheckpointLayout& layout) {
  std::vector<StoredPart> parts = layout.parts_of(store, false);
  const std::int64_t each = store.model().state().count().value;
  const std::int64_t shards = each == 0 ? 0 : store.statistics().count.value / each;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::vector<StoredPart> statistics = layout.average_of(store, store.statistics(shard));
    parts.insert(parts.end(), statistics.begin(), statistics.end());
  }
  return parts;
}

/// Reads elements in memory of the host, to which it copies those of a device.
class HostCopy {
 public:
  HostCopy(const ops::ComputeDevice& device, const std::vector<StoredPart>& parts) : device_(device) {
    Bytes largest;
    for (const StoredPart& part : parts)
      if (part.elements.kind == MemoryKind::device) largest = std::max(largest, part.elements.bytes());
    if (largest.value > 0) copy_ = device.allocate_staging(largest);
  }
  [[nodiscard]] ConstBuffer of(const Buffer& elements) const {
    if (elements.kind != MemoryKind::device) return elements;
    device_.copy(copy_.data(), elements.data, elements.bytes(), device_.queue());
    device_.wait(device_.queue());
    return {copy_.data(), elements.count, elements.dtype};
  }

 private:
  const ops::ComputeDevice& device_;
  Allocation copy_;
};

/// Describes what this rank has that is not finite; empty if there is nothing.
std::string found_in(const Store& store) {
  const CheckpointLayout layout(store, 1);
  const std::vector<StoredPart> parts = all_parts(store, layout);
  const HostCopy host(store.model().device(), parts);
  std::string first;
  int more = 0;
  for (const StoredPart& part : parts) {
    const auto at = first_not_finite(host.of(part.elements));
    if (!at) continue;
    more += first.empty() ? 0 : 1;
    if (!first.empty()) continue;
    const state::StoredTensor& tensor = layout.header(part.file).tensors()[static_cast<std::size_t>(part.tensor)];
    first = "'" + tensor.name + "' (element " + std::to_string(part.first.value + *at) + ')';
  }
  return more == 0 ? first : first + " and " + std::to_string(more) + " more";
}

}  // namespace

std::optional<std::int64_t> first_not_finite(const ConstBuffer& elements) {
  if (kernels::all_finite(elements)) return std::nullopt;
  std::int64_t first = 0;
  for (std::int64_t count = elements.count.value; count > 1;) {
    const std::int64_t half = count / 2;
    const bool is_behind = kernels::all_finite(slice(elements, {first}, {half}));
    first += is_behind ? half : 0;
    count = is_behind ? count - half : half;
  }
  return first;
}

void require_finite(ProcessGroup& group, const Store& store, std::int64_t step) {
  const Obstacle obstacle = gather_obstacle(group, found_in(store));
  if (obstacle.ranks.empty()) return;
  throw Error(ErrorCode::diverged,
              "after step " + std::to_string(step) + ", the run has numbers that are not finite: " + obstacle.first +
                  ". It saves no such state; continue from an earlier checkpoint, with a lower learning rate",
              {.rank = group.rank().value, .host = group.host(), .peers = obstacle.ranks})
      .on_every_rank();
}

}  // namespace lockstep::trainer
