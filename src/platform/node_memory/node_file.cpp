// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/node_file.hpp"

namespace lockstep {

Extents::Extents(Bytes whole) { extents_[0] = {whole.value, false}; }

std::optional<std::int64_t> Extents::take(Bytes bytes, std::int64_t alignment) {
  for (auto at = extents_.begin(); at != extents_.end(); ++at) {
    const std::int64_t begin = (at->first + alignment - 1) / alignment * alignment;
    const std::int64_t end = at->first + at->second.bytes;
    if (at->second.taken || bytes.value > end - begin) continue;
    // The remainder is inserted first: if that throws, the extents still have no gaps.
    if (begin + bytes.value < end) {
      extents_.emplace(begin + bytes.value, Extent{end - begin - bytes.value, false});
      at->second.bytes = begin + bytes.value - at->first;
    }
    if (begin > at->first) {
      const std::int64_t before = begin - at->first;
      at = extents_.emplace(begin, Extent{bytes.value, false}).first;
      std::prev(at)->second.bytes = before;
    }
    at->second.taken = true;
    taken_.value += bytes.value;
    return begin;
  }
  return std::nullopt;
}

void Extents::give_back(std::int64_t offset) noexcept {
  auto at = extents_.find(offset);
  at->second.taken = false;
  taken_.value -= at->second.bytes;
  const auto after = std::next(at);
  if (after != extents_.end() && !after->second.taken) {
    at->second.bytes += after->second.bytes;
    extents_.erase(after);
  }
  if (at == extents_.begin()) return;
  const auto before = std::prev(at);
  if (!before->second.taken) {
    before->second.bytes += at->second.bytes;
    extents_.erase(at);
  }
}

std::string local_rank_name(int rank) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "local rank " + std::to_string(rank) + " on host " + host.data() + ": ";
}

// A new file contains zeros, which is the initial value of all its atomics, so no process has to construct them before
// the others read them.
NodeFile::NodeFile(SharedFile file, const NodeLayout& layout, int member, std::uint64_t nonce)
    : file_(std::move(file)), layout_(layout), member_(member), nonce_(nonce), heap_(layout.heap) {}

/// For groups that some ranks have not left yet, this process publishes that it accesses nothing of theirs any more.
NodeFile::~NodeFile() {
  if (!origin_.is_here()) return;
  for (const Parting& left : partings_) {
    left.members[left.rank].departure.store(Departure::released, std::memory_order_release);
  }
}

std::atomic<std::uint64_t>& NodeFile::greeting(int member) const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(file_.data())[member];
}

void NodeFile::enter() {
  if (member_ == 0) file_.provide(0, {rounded_up(layout_.greetings(), page_bytes())});
  file_.mark(member_);
  greeting(member_).store(nonce_, std::memory_order_release);
}

void NodeFile::meet() const {
  for (int peer = 0; peer < layout_.members; ++peer) {
    if (greeting(peer).load(std::memory_order_acquire) != nonce_) {
      throw Error(ErrorCode::corrupt,
                  "does not see in the shared memory what local rank " + std::to_string(peer) + " wrote there");
    }
    if (peer != member_ && has_ended(peer)) {
      throw Error(ErrorCode::corrupt, "does not see the lock of local rank " + std::to_string(peer) +
                                          ", by which it would notice that rank's death");
    }
  }
}

std::int64_t NodeFile::reserve(Bytes length) {
  const std::lock_guard lock(mutex_);
  const auto offset = heap_.take(length, length.value < huge_page_bytes ? page_bytes() : huge_page_bytes);
  if (offset) return layout_.heap_of(member_) + *offset;
  throw Error(ErrorCode::unsupported, "the heap of " + std::to_string(layout_.heap.value) + " bytes, of which " +
                                          std::to_string(heap_.taken().value) + " are in use, has no room for " +
                                          std::to_string(length.value) +
                                          " more; use smaller buffers or set a larger heap");
}

void NodeFile::release(std::int64_t offset, Bytes length) noexcept {
  if (!origin_.is_here()) return;  // a child of fork() must not discard the memory of its parent
  file_.discard(offset, length);
  const std::lock_guard lock(mutex_);
  heap_.give_back(offset - layout_.heap_of(member_));
}

Allocation NodeFile::allocate(Bytes bytes) {
  // A number that is refused anyway is not rounded up, which might overflow.
  const Bytes length = bytes > layout_.heap ? bytes : whole_pages(bytes);
  const std::int64_t offset = reserve(length);
  // The Allocation owns the range from here on, so that the range is released if provide() throws.
  Allocation memory(at(offset), bytes, MemoryKind::shared,
                    [self = shared_from_this(), offset, length](void*) { self->release(offset, length); });
  file_.provide(offset, length);
  return memory;
}

std::int64_t NodeFile::take_area(Bytes bytes) {
  reclaim();
  SharedFile::check_room(bytes);
  return reserve(bytes);
}

void NodeFile::part(const Parting& parting) {
  {
    const std::lock_guard lock(partings_mutex_);
    partings_.push_back(parting);
  }
  reclaim();
}

void NodeFile::reclaim() noexcept {
  const std::lock_guard lock(partings_mutex_);
  std::erase_if(partings_, [this](const Parting& parting) { return reclaimed(parting); });
}

/// A barrier that does not block. When all ranks of the group have left it, all except rank 0 take their areas back and
/// publish that. When all of them have published it, rank 0 takes back its own area, in which they publish it.
bool NodeFile::reclaimed(const Parting& parting) noexcept {
  for (int peer = 0; peer < parting.size; ++peer) {
    if (peer == parting.rank) continue;
    const Departure how = parting.members[peer].departure.load(std::memory_order_acquire);
    if (how != Departure::released && (how != Departure::in_order || parting.rank == 0)) return false;
  }
  if (parting.rank != 0) {
    parting.members[parting.rank].departure.store(Departure::released, std::memory_order_release);
  }
  release(parting.area, parting.bytes);
  return true;
}

std::vector<std::shared_ptr<NodeFile>> NodeFiles::held() {
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [](const std::weak_ptr<NodeFile>& file) { return file.expired(); });
  std::vector<std::shared_ptr<NodeFile>> found;
  for (const std::weak_ptr<NodeFile>& file : files_) {
    if (auto here = file.lock()) found.push_back(std::move(here));
  }
  return found;
}

void NodeFiles::add(const std::shared_ptr<NodeFile>& file) {
  const std::lock_guard lock(mutex_);
  files_.push_back(file);
  if (kept_ == nullptr || file->layout().members >= kept_->layout().members) kept_ = file;
}

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
