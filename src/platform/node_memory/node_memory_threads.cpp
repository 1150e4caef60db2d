// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/futex.hpp"
#include "platform/node_memory/mapping.hpp"
#include "platform/node_memory/node_memory.hpp"
#include "platform/node_memory/node_memory_layout.hpp"

namespace lockstep {
namespace {

class OneProcess final : public NodeMemory::Store {
 public:
  OneProcess(int ranks, Bytes control_bytes)
      : controls_(Mapping::untouched({ranks * control_bytes.value})), members_(static_cast<std::size_t>(ranks)) {}

  // Small buffers come from the C library, where the address sanitizer guards their ends; large ones are in huge pages.
  Allocation allocate(Bytes bytes) override {
    if (bytes.value < huge_page_bytes) {
      auto memory = std::make_shared<Allocation>(allocate_host(bytes));
      void* data = memory->data();
      return {data, bytes, MemoryKind::shared, [memory](void*) {}};
    }
    auto memory = std::make_shared<Mapping>(Mapping::anonymous(bytes));
    void* data = memory->data();
    return {data, bytes, MemoryKind::shared, [memory](void*) {}};
  }
  void left_in_order() override {}  // the areas are freed with the last rank that holds them
  [[nodiscard]] bool has_mortal_ranks() const override { return false; }
  [[nodiscard]] bool has_ended(int /*peer*/) const override { return false; }

  [[nodiscard]] std::byte* controls() const { return controls_.data(); }
  [[nodiscard]] Doorbell* doorbell() { return &doorbell_; }
  [[nodiscard]] NodeMember* members() { return members_.data(); }
  [[nodiscard]] std::atomic<std::uint32_t>* alarm() { return &alarm_; }

 private:
  Mapping controls_;
  Doorbell doorbell_;
  std::vector<NodeMember> members_;
  alignas(Doorbell) std::atomic<std::uint32_t> alarm_{0};
};

}  // namespace

std::vector<std::shared_ptr<NodeMemory>> make_node_memory_of_threads(int ranks, const NodeMemoryOptions& options) {
  if (ranks < 1) throw Error(ErrorCode::invalid_argument, "a node has at least one rank, not " + std::to_string(ranks));
  const Bytes control_bytes = whole_pages(options.control_bytes);
  const auto store = std::make_shared<OneProcess>(ranks, control_bytes);
  NodeMemory::View view{
      .size = ranks,
      .control_bytes = control_bytes,
      .own_heap_bytes = std::numeric_limits<std::uintptr_t>::max(),  // the heap begins at 0: a location is an address
      .doorbell = store->doorbell(),
      .members = store->members(),
      .alarm = store->alarm()};
  if (options.membarrier && register_for_barriers(BarrierReach::process)) view.barrier = BarrierReach::process;
  for (int rank = 0; rank < ranks; ++rank) view.controls.push_back(store->controls() + rank * control_bytes.value);
  view.heaps.resize(static_cast<std::size_t>(ranks));  // each heap begins at 0
  std::vector<std::shared_ptr<NodeMemory>> views;
  for (view.rank = 0; view.rank < ranks; ++view.rank) views.push_back(std::make_shared<NodeMemory>(view, store));
  return views;
}

}  // namespace lockstep
