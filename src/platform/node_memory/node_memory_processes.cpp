// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/node_memory_processes.hpp"

#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep {

ProcessMemory::ProcessMemory(std::shared_ptr<NodeFile> file, GroupPlan plan, int rank)
    : file_(std::move(file)), plan_(std::move(plan)), rank_(rank) {}

Bytes ProcessMemory::area_bytes(int rank, int ranks, Bytes control) {
  return {control.value + (rank == 0 ? GroupHeader::bytes(ranks).value : 0)};
}

NodeMemory::View ProcessMemory::view() const {
  NodeMemory::View view{
      .rank = rank_,
      .size = size(),
      .control_bytes = plan_.control,
      .own_heap = reinterpret_cast<std::uintptr_t>(file_->at(file_->layout().heap_of(file_->member()))),
      .own_heap_bytes = static_cast<std::uintptr_t>(file_->layout().heap.value),
      .doorbell = reinterpret_cast<Doorbell*>(header(GroupHeader::doorbell)),
      .members = reinterpret_cast<NodeMember*>(header(GroupHeader::members)),
      .alarm = reinterpret_cast<std::atomic<std::uint32_t>*>(header(GroupHeader::alarm))};
  if (plan_.membarrier) view.barrier = BarrierReach::node;
  for (int rank = 0; rank < size(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    const Bytes before{area_bytes(rank, size(), plan_.control).value - plan_.control.value};
    view.controls.push_back(file_->at(plan_.area_of_rank[i] + before.value));
    view.heaps.push_back(reinterpret_cast<std::uintptr_t>(file_->at(file_->layout().heap_of(plan_.member_of_rank[i]))));
  }
  return view;
}

Allocation ProcessMemory::allocate(Bytes bytes) {
  try {
    return file_->allocate(bytes);
  } catch (const Error& error) {
    ErrorContext context = error.context();
    context.operation = "allocate";
    context.bytes = bytes.value;
    throw Error(error.code(), local_rank_name(rank_) + error.message(), std::move(context), error.location());
  }
}

void ProcessMemory::left_in_order() {
  file_->part({.area = plan_.area_of_rank[static_cast<std::size_t>(rank_)],
               .bytes = area_bytes(rank_, size(), plan_.control),
               .members = reinterpret_cast<NodeMember*>(header(GroupHeader::members)),
               .rank = rank_,
               .size = size()});
}

}  // namespace lockstep
