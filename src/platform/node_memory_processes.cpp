// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory_processes.hpp"

#include <array>
#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep {

std::string local_rank_name(int rank) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "local rank " + std::to_string(rank) + " on host " + host.data() + ": ";
}

// What is in the file is zeros at the start, which is what all its atomics start as; so that nobody has to construct
// them before the others look.
ProcessMemory::ProcessMemory(SharedFile file, const NodeLayout& layout, int rank)
    : file_(std::move(file)), layout_(layout), rank_(rank), heap_(layout.heap) {}

NodeMember& ProcessMemory::member(int rank) const {
  return reinterpret_cast<NodeMember*>(file_.data() + NodeLayout::members)[rank];
}

void ProcessMemory::enter(std::uint64_t nonce) {
  if (rank_ == 0) file_.provide(0, {layout_.controls()});
  file_.provide(layout_.control_of(rank_), layout_.control);
  file_.mark(rank_);
  member(rank_).greeting.store(nonce, std::memory_order_release);
}

void ProcessMemory::meet(std::uint64_t nonce) const {
  for (int peer = 0; peer < layout_.ranks; ++peer) {
    if (member(peer).greeting.load(std::memory_order_acquire) != nonce) {
      throw Error(ErrorCode::corrupt,
                  "does not see in the shared memory what local rank " + std::to_string(peer) + " wrote there");
    }
    if (peer != rank_ && !file_.marked_by_other(peer)) {
      throw Error(ErrorCode::corrupt, "does not see the lock of local rank " + std::to_string(peer) +
                                          ", by which it would notice that rank's death");
    }
  }
}

NodeMemory::View ProcessMemory::view(bool membarrier) const {
  std::byte* data = file_.data();
  return {.rank = rank_,
          .size = layout_.ranks,
          .controls = data + layout_.controls(),
          .control_bytes = layout_.control,
          .heaps = reinterpret_cast<std::uintptr_t>(data + layout_.heaps()),
          .heap_stride = static_cast<std::uintptr_t>(layout_.heap.value),
          .own_heap = reinterpret_cast<std::uintptr_t>(data + layout_.heap_of(rank_)),
          .own_heap_bytes = static_cast<std::uintptr_t>(layout_.heap.value),
          .doorbell = reinterpret_cast<Doorbell*>(data + NodeLayout::doorbell),
          .members = reinterpret_cast<NodeMember*>(data + NodeLayout::members),
          .alarm = reinterpret_cast<std::atomic<std::uint32_t>*>(data + NodeLayout::alarm),
          .membarrier = membarrier};
}

std::int64_t ProcessMemory::reserve(Bytes length) {
  const std::lock_guard lock(mutex_);
  const auto offset = heap_.take(length, length.value < huge_page_bytes ? page_bytes() : huge_page_bytes);
  if (offset) return layout_.heap_of(rank_) + *offset;
  throw Error(ErrorCode::unsupported, "the heap of " + std::to_string(layout_.heap.value) + " bytes, of which " +
                                          std::to_string(heap_.taken().value) + " are in use, has no room for " +
                                          std::to_string(length.value) +
                                          " more; use smaller buffers or set a larger heap");
}

void ProcessMemory::release(std::int64_t offset, Bytes length) noexcept {
  file_.discard(offset, length);
  const std::lock_guard lock(mutex_);
  heap_.give_back(offset - layout_.heap_of(rank_));
}

Allocation ProcessMemory::allocate(Bytes bytes) {
  const Bytes length = whole_pages(bytes);
  try {
    const std::int64_t offset = reserve(length);
    // Owns the range from here on, so that it is given back if what follows throws.
    Allocation memory(file_.data() + offset, bytes, MemoryKind::shared,
                      [self = shared_from_this(), offset, length](void*) { self->release(offset, length); });
    file_.provide(offset, length);
    return memory;
  } catch (const Error& error) {
    ErrorContext context = error.context();
    context.operation = "allocate";
    context.bytes = bytes.value;
    throw Error(error.code(), local_rank_name(rank_) + error.message(), std::move(context), error.location());
  }
}

}  // namespace lockstep
