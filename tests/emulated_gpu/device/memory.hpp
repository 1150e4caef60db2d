// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace emulated_gpu {

enum class MemoryType { device, pinned, managed };

/// One allocation. Its addresses are never given out again.
struct Block {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  MemoryType type = MemoryType::device;
  int gpu = 0;               ///< index in the machine's description
  std::uint64_t number = 0;  ///< the how manieth of the process, from 1
  bool live = true;          ///< false: freed, or not yet allocated in the order of its stream
  bool was_freed = false;
};

/// "byte 12 of allocation 3 (device memory of GPU 0, 64 bytes)", or by how much it lies behind that.
std::string describe(const Block& block, const void* address);

/// All memory that the runtime has given to the program. Device memory is closed to the host: who touches it there ends
/// the process with a message. The emulation itself goes by views, which are a second mapping of the same memory.
/// Callers hold the device's lock (cuda/queue.hpp).
class Memory {
 public:
  static Memory& instance();

  /// Every byte is 0xff, a NaN in every floating-point type. Aligned to 4096 bytes. @pre bytes > 0
  Block& allocate(MemoryType type, int gpu, std::size_t bytes);
  /// Its contents are gone, and every later access is a violation.
  void release(Block& block);

  /// The allocation, live or freed, that `address` is in, or behind the end of which it lies without being in another;
  /// nullptr where it is none of this memory. @cost logarithmic
  Block* find(const void* address);
  /// Where the emulation may read and write [address, address + bytes), which `who` uses: a violation unless all of it
  /// is in one live allocation or outside this memory altogether (then it is the same address, the host's own).
  std::byte* view(const void* address, std::size_t bytes, const std::string& who);

  /// Host code may touch everything while one lives: for kernels, which run as host code and check each access.
  class Open {
   public:
    Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open();
  };

  /// Of pinned memory: the host may not touch these bytes until allow() has been called as often. @param why  for the
  /// message: what has not been waited for. @pre in one live pinned allocation
  void forbid(const void* address, std::size_t bytes, const std::string& why);
  void allow(const void* address, std::size_t bytes);

 private:
  struct Arena {
    std::byte* program = nullptr;  // as the program sees it
    std::byte* views = nullptr;    // the same memory, for the emulation
    std::size_t used = 0;
    int file = -1;
    [[nodiscard]] bool holds(const void* address) const;
  };
  Memory();
  static Arena make_arena(int protection);
  Arena& arena_of(MemoryType type) { return type == MemoryType::device ? device_ : host_; }
  void explain_fault(const std::byte* address, bool is_write);

  Arena device_;
  Arena host_;  // pinned and managed
  std::map<const std::byte*, Block> blocks_;
  std::uint64_t allocations_ = 0;
  int open_ = 0;
};

}  // namespace emulated_gpu
