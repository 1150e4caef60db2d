// SPDX-License-Identifier: Apache-2.0
// What a replica prepares for steps of several extents, and how much of it is kept.
#include <algorithm>
#include <numeric>
#include <span>

#include "base/hash.hpp"
#include "ddp/rank_zero.hpp"
#include "platform/machine/available_memory.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {
namespace {

constexpr std::size_t fewest_extents = 2;

/// Returns indices of the extents, those with the most elements first. So the arena grows once, and a batch that is too
/// large for a device is refused at once.
std::vector<std::size_t> largest_first(std::span<const std::vector<TensorSpec>> extents) {
  const auto elements = [&](std::size_t index) {
    std::int64_t sum = 0;
    for (const TensorSpec& tensor : extents[index]) sum += tensor.elements();
    return -sum;
  };
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, elements);
  return order;
}

/// Returns the memory of the process without the activations of the model.
Bytes memory_beside_activations(const nn::Model& model) {
  const bool is_host = model.device().queue().is_host();
  return {resident_memory().value - (is_host ? model.memory_use().activations.value : 0)};
}

int ranks_on_this_host(ProcessGroup& group) {
  Fnv1a own;
  own.add(group.host());
  const std::vector<std::uint64_t> hosts = gather_values(group, own.value(), "hosts");
  return static_cast<int>(std::ranges::count(hosts, own.value()));
}

}  // namespace

/// Returns the number of extents whose plans are kept, the same on all ranks, because a device captures steps together
/// with other ranks'. Collective. @param each  memory of the plans of one
std::size_t Replica::extents_that_fit(Bytes each) {
  const std::int64_t left = available_memory().value / 8 / ranks_on_this_host(*group_);
  const std::int64_t fits = left / std::max<std::int64_t>(each.value, 1);
  const auto all = static_cast<std::int64_t>(extents().size());
  return static_cast<std::size_t>(
      group_->min(std::clamp(fits, std::min(all, static_cast<std::int64_t>(fewest_extents)), all)));
}

void Replica::prepare_steps(const std::vector<Count>& samples) {
  const std::vector<std::size_t> order = largest_first(extents());
  const bool is_first = prepared_.plans == 0;
  const Bytes before = order.size() > 1 ? memory_beside_activations(model_) : Bytes{0};
  for (std::size_t i = 0; i < order.size() && (i == 0 || i < prepared_.kept); ++i) {
    for (const Count count : samples) prepare(count, true, order[i]);
    if (i > 0 || order.size() == 1 || !is_first) continue;
    prepared_.kept = extents_that_fit({memory_beside_activations(model_).value - before.value});
    model_.keep_plans(prepared_.kept);
  }
  if (order.size() == 1 || !is_first) return;
  prepared_.plans.value = std::max<std::int64_t>(1, memory_beside_activations(model_).value - before.value);
}

}  // namespace lockstep::trainer
