// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/finite_state.hpp"

#include <algorithm>

#include "base/nearest.hpp"
#include "ddp/rank_zero.hpp"
#include "kernels/finite.hpp"
#include "trainer/checkpoint/checkpoint_layout.hpp"
#include "trainer/checkpoint/resume.hpp"
#include "trainer/replica/host_mirror.hpp"

namespace lockstep::trainer {
namespace {

/// Returns the index of the first element that is infinite or NaN; nothing if all are finite. @pre memory of the host
std::optional<std::int64_t> first_not_finite(const ConstBuffer& elements) {
  if (kernels::all_finite(elements)) return std::nullopt;
  std::int64_t first = 0;
  for (std::int64_t count = elements.count.value; count > 1;) {
    const std::int64_t half = count / 2;
    const bool lower_is_finite = kernels::all_finite(slice(elements, {first}, {half}));
    first += lower_is_finite ? half : 0;
    count = lower_is_finite ? count - half : half;
  }
  return first;
}

/// Returns this rank's parts of everything that a checkpoint holds.
std::vector<StoredPart> all_parts(const Store& store, const CheckpointLayout& layout) {
  std::vector<StoredPart> parts;
  layout.add_own(parts, store, false);
  const std::int64_t each = store.model().state_of_shard().value;
  const std::int64_t shards = each == 0 ? 0 : store.statistics().all().count.value / each;
  for (std::int64_t shard = 0; shard < shards; ++shard)
    layout.add_average(parts, store, store.statistics().part(shard));
  return parts;
}

/// Describes what this rank has that is not finite; empty if there is nothing.
std::string found_in(const Store& store) {
  const CheckpointLayout layout(store, 1);
  const std::vector<StoredPart> parts = all_parts(store, layout);
  const ops::ComputeDevice& device = store.model().device();
  Bytes largest;  // of those in memory of the device
  for (const StoredPart& part : parts)
    if (part.elements.kind == MemoryKind::device) largest = std::max(largest, part.elements.bytes());
  const Allocation copy = largest.value > 0 ? device.allocate_staging(largest) : Allocation();
  const auto on_host = [&](const Buffer& elements) {
    if (elements.kind != MemoryKind::device) return elements;
    const Buffer copied{copy.data(), elements.count, elements.dtype};
    copy_and_wait(device, copied, elements);
    return copied;
  };
  std::string first;
  int more = 0;
  for (const StoredPart& part : parts) {
    const auto at = first_not_finite(on_host(part.elements));
    if (!at) continue;
    more += first.empty() ? 0 : 1;
    if (!first.empty()) continue;
    first = "'" + layout.tensor(part).name + "' (element " + std::to_string(part.first.value + *at) + ')';
  }
  return more == 0 ? first : first + " and " + std::to_string(more) + " more";
}

}  // namespace

void read_finite(ProcessGroup& group, const Buffer& to, const ReadPart& part, const std::function<void()>& read) {
  on_rank_zero(group, [&] {
    read();
    if (const auto at = first_not_finite(to))
      throw Error(ErrorCode::corrupt, "in '" + echo(part.file, 400) + "', element " + std::to_string(part.first + *at) +
                                          " of the tensor '" + part.tensor + "' is not finite in " +
                                          std::string(name(to.dtype)) + "; " + part.remedy);
  });
  group.communicator().broadcast(to, {0}, Queue::host(), part.tensor).wait();
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
