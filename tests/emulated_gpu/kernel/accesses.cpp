// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/accesses.hpp"

#include <link.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/kernel/multiprocessor.hpp"
#include "emulated_gpu/kernel/source_line.hpp"

namespace emulated_gpu {

std::array<UsableRange, usable_ranges_count> usable_ranges;

namespace {

const char* verb_of(Access access) {
  switch (access) {
    case Access::read: return "reads";
    case Access::write: return "writes";
    case Access::atomic: return "changes";
  }
  return "";
}

[[noreturn]] void refuse_access(const MemoryAccess& access, const std::string& where) {
  Multiprocessor::instance().violate(
      std::string(verb_of(access.access)) + " " + std::to_string(access.bytes) + " bytes at " + where,
      source_line(access.place));
}

void check_shared(const Running& thread, const MemoryAccess& access, std::size_t offset) {
  Multiprocessor& processor = Multiprocessor::instance();
  const auto where = [offset] { return "byte " + std::to_string(offset) + " of shared memory, which "; };
  if (!processor.shared().is_in_a_variable(offset, access.bytes)) refuse_access(access, where() + "is in no variable");
  const auto conflict = processor.conflicts().note(offset, access.bytes, access.access, thread.number, access.place);
  if (!conflict) return;
  refuse_access(access, where() + "thread " + processor.index_of(conflict->thread) + " " + verb_of(conflict->access) +
                            " at " + source_line(conflict->place) + " without a barrier between");
}

bool may_use_memory_of(int gpu, const Running& thread) {
  return thread.gpu < 0 || thread.gpu == gpu || state_of(thread.gpu).peers.contains(gpu);
}

void check_global(const Running& thread, const MemoryAccess& access, const Block& block) {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(access.address) - block.base);
  if (!block.live || offset > block.bytes || access.bytes > block.bytes - offset)
    refuse_access(access, describe(block, access.address));
  if (block.type == MemoryType::device && !may_use_memory_of(block.gpu, thread))
    refuse_access(access,
                  describe(block, access.address) + ", without peer access from GPU " + std::to_string(thread.gpu));
  usable_ranges[reinterpret_cast<std::uintptr_t>(access.address) / 4096 % usable_ranges_count] = {
      reinterpret_cast<std::uintptr_t>(block.base), block.bytes};
}

/// The ranges of __device__ variables, one for each program or library that has any.
std::vector<std::pair<const char*, const char*>>& variables_of_gpu() {
  static std::vector<std::pair<const char*, const char*>> ranges;
  return ranges;
}

bool is_variable_of_gpu(const void* address) {
  return std::ranges::any_of(variables_of_gpu(),
                             [address](const auto& range) { return address >= range.first && address < range.second; });
}

/// Returns whether the address is in the program or in a loaded library, because constants may be read.
bool is_static_data(const void* address) {
  auto wanted = reinterpret_cast<std::uintptr_t>(address);
  return dl_iterate_phdr(
             [](dl_phdr_info* object, std::size_t, void* data) {
               const std::uintptr_t offset = *static_cast<std::uintptr_t*>(data) - object->dlpi_addr;
               return std::any_of(object->dlpi_phdr, object->dlpi_phdr + object->dlpi_phnum,
                                  [offset](const auto& segment) {
                                    return segment.p_type == PT_LOAD && offset - segment.p_vaddr < segment.p_memsz;
                                  })
                          ? 1
                          : 0;
             },
             &wanted) == 1;
}

/// Returns whether cudaHostRegister has pinned the memory.
bool is_registered(const MemoryAccess& access) {
  const auto* at = static_cast<const std::byte*>(access.address);
  const auto& registered = Runtime::instance().registered;
  const auto after = registered.upper_bound(at);
  if (after == registered.begin()) return false;
  const auto& [base, bytes] = *std::prev(after);
  return static_cast<std::size_t>(at - base) + access.bytes <= bytes;
}

/// The pages of constants that were read before.
struct ReadPages {
  std::array<std::uintptr_t, 64> pages{};
  bool knows(std::uintptr_t page) const { return pages[page % pages.size()] == page; }
  void add(std::uintptr_t page) { pages[page % pages.size()] = page; }
};
ReadPages read_pages;

void check_host(const MemoryAccess& access) {
  const auto page = reinterpret_cast<std::uintptr_t>(access.address) / 4096;
  if (page == 0) refuse_access(access, "a null pointer, or near it");
  if (is_variable_of_gpu(access.address) || is_registered(access)) return;
  if (access.access == Access::read && read_pages.knows(page)) return;
  const bool is_static = is_static_data(access.address);
  if (is_static && access.access == Access::read) return read_pages.add(page);
  refuse_access(access, is_static ? "a variable of the host's, or a constant"
                                  : "an address of the host's memory that is neither pinned nor managed");
}

}  // namespace

bool add_variables_of_gpu(const char* begin, const char* end) {
  if (begin != nullptr && !is_variable_of_gpu(begin)) variables_of_gpu().emplace_back(begin, end);
  return begin != nullptr;
}

void begin_accesses() {
  usable_ranges.fill({});
  read_pages = {};
}

void check_elsewhere(const MemoryAccess& access) {
  const Running& thread = *running;
  const InEmulation emulation;
  const auto at = reinterpret_cast<std::uintptr_t>(access.address);
  if (access.is_aligned && (at & (access.bytes - 1)) != 0)
    refuse_access(access, "an address that is no multiple of that");
  const std::size_t offset = at - Multiprocessor::instance().shared().begin();
  if (offset < SharedMemory::addresses) {
    check_shared(thread, access, offset);
  } else if (const Block* block = Memory::instance().find(access.address)) {
    check_global(thread, access, *block);
  } else {
    check_host(access);
  }
}

}  // namespace emulated_gpu
