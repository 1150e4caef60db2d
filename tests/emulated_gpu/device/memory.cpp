// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/device/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "emulated_gpu/device/forbidden.hpp"
#include "emulated_gpu/device/violation.hpp"

namespace emulated_gpu {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 40;  // size of the address range
constexpr std::size_t page = 4096;
constexpr std::ptrdiff_t small_gap = 2 << 20;  // to protect it takes less time than one more call

std::size_t round_up(std::size_t bytes) { return (bytes + page - 1) / page * page; }

const char* name_of(MemoryType type) {
  switch (type) {
    case MemoryType::device: return "device memory";
    case MemoryType::pinned: return "pinned memory";
    case MemoryType::managed: return "managed memory";
  }
  return "memory";
}

}  // namespace

std::string describe(const Block& block, const void* address) {
  const auto offset = static_cast<const std::byte*>(address) - block.base;
  const auto bytes = static_cast<std::ptrdiff_t>(block.bytes);
  const std::string place = offset < bytes ? "byte " + std::to_string(offset) + " of"
                                           : std::to_string(offset - bytes) + " bytes behind the end of";
  return place + " allocation " + std::to_string(block.number) + " (" + name_of(block.type) +
         (block.type == MemoryType::device ? " of GPU " + std::to_string(block.gpu) : "") + ", " +
         std::to_string(block.bytes) + " bytes" +
         (block.was_freed ? ", freed"
          : block.live    ? ""
                          : ", not yet allocated in its stream's order") +
         ")";
}

Memory& Memory::instance() {
  static Memory* memory = new Memory;  // threads of the emulation use it until the process ends
  return *memory;
}

Memory::Memory() : device_(make_arena(PROT_NONE)), host_(make_arena(PROT_READ | PROT_WRITE)) {
  watch_faults([](const std::byte* address, bool is_write) { instance().explain_fault(address, is_write); });
}

Memory::Arena Memory::make_arena(int protection) {
  Arena arena;
  arena.file = memfd_create("emulated GPU", MFD_CLOEXEC);
  if (arena.file < 0 || ftruncate(arena.file, static_cast<off_t>(arena_bytes)) != 0)
    violation("this system gives no memory file for the emulation");
  const auto map = [&](int how) {
    void* start = mmap(nullptr, arena_bytes, how, MAP_SHARED | MAP_NORESERVE, arena.file, 0);
    if (start == MAP_FAILED) violation("this system gives no addresses for the emulation: is their number limited?");
    madvise(start, arena_bytes, MADV_DONTDUMP);
    return static_cast<std::byte*>(start);
  };
  arena.program = map(protection);
  arena.views = map(PROT_READ | PROT_WRITE);
  return arena;
}

bool Memory::Arena::holds(const void* address) const {
  const auto* p = static_cast<const std::byte*>(address);
  return p >= program && p < program + arena_bytes;
}

Block& Memory::allocate(MemoryType type, int gpu, std::size_t bytes) {
  Arena& arena = arena_of(type);
  const std::size_t offset = arena.used;
  arena.used += round_up(bytes) + page;  // an unused page separates two allocations
  if (arena.used > arena_bytes) violation("the emulation has given out all its addresses");
  std::memset(arena.views + offset, 0xff, bytes);
  Block block{.base = arena.program + offset, .bytes = bytes, .type = type, .gpu = gpu, .number = ++allocations_};
  if (type == MemoryType::device) held_.emplace(block.base, round_up(bytes));
  return blocks_.emplace(block.base, block).first->second;
}

void Memory::release(Block& block) {
  Arena& arena = arena_of(block.type);
  const auto offset = block.base - arena.program;
  fallocate(arena.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(round_up(block.bytes)));
  mprotect(block.base, round_up(block.bytes), PROT_NONE);
  held_.erase(block.base);
  block.live = false;
  block.was_freed = true;
}

Block* Memory::find(const void* address) {
  if (!device_.holds(address) && !host_.holds(address)) return nullptr;
  auto after = blocks_.upper_bound(static_cast<const std::byte*>(address));
  return after == blocks_.begin() ? nullptr : &std::prev(after)->second;
}

std::byte* Memory::view(const void* address, std::size_t bytes, const std::string& who) {
  const Block* block = find(address);
  if (block == nullptr) return static_cast<std::byte*>(const_cast<void*>(address));
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - block->base);
  if (!block->live || offset > block->bytes || bytes > block->bytes - offset) {
    violation(who + " uses " + std::to_string(bytes) + " bytes at " + describe(*block, address));
  }
  const Arena& arena = arena_of(block->type);
  return arena.views + (static_cast<const std::byte*>(address) - arena.program);
}

/// Returns what covers the blocks that have not been freed, and little else: a long process has freed gigabytes of
/// addresses, whose protection would take longer to change than a kernel runs.
std::vector<std::span<std::byte>> Memory::ranges_of_device_memory() const {
  std::vector<std::span<std::byte>> ranges;
  for (const auto& [base, bytes] : held_) {
    if (!ranges.empty() && base - (ranges.back().data() + ranges.back().size()) < small_gap) {
      ranges.back() = {ranges.back().data(), base + bytes};
    } else {
      ranges.emplace_back(base, bytes);
    }
  }
  return ranges;
}

Memory::Open::Open() {
  Memory& memory = instance();
  ++memory.open_;
  if (std::exchange(memory.is_open_, true)) return;
  memory.opened_ = memory.ranges_of_device_memory();
  for (const auto range : memory.opened_) mprotect(range.data(), range.size(), PROT_READ | PROT_WRITE);
  open_forbidden();
}

Memory::Open::~Open() {
  Memory& memory = instance();
  if (--memory.open_ == 0 && memory.kept_ == 0) memory.close();
}

Memory::KeepOpen::~KeepOpen() {
  Memory& memory = instance();
  if (--memory.kept_ == 0 && memory.open_ == 0) memory.close();
}

void Memory::close() {
  if (!std::exchange(is_open_, false)) return;
  for (const auto range : opened_) mprotect(range.data(), range.size(), PROT_NONE);
  close_forbidden();
}

void Memory::forbid(const void* address, std::size_t bytes, const std::string& why) {
  forbid_range(static_cast<const std::byte*>(address), bytes, why);
}

void Memory::allow(const void* address, std::size_t bytes) {
  allow_range(static_cast<const std::byte*>(address), bytes);
}

void Memory::explain_fault(const std::byte* address, bool is_write) {
  if (!device_.holds(address) && !host_.holds(address)) return;
  const Block* block = find(address);
  const std::string host = is_write ? "the host writes " : "the host reads ";
  if (block == nullptr) violation(host + "an address between allocations");
  violation(host + describe(*block, address) +
            (block->type == MemoryType::device ? ", which only copies and kernels reach" : ""));
}

}  // namespace emulated_gpu
