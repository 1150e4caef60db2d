// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace emulated_gpu {

enum class MemoryType { device, pinned, managed };

/// One allocation. Its addresses are never reused.
struct Block {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  MemoryType type = MemoryType::device;
  int gpu = 0;               ///< index in the machine's description
  std::uint64_t number = 0;  ///< counted in the process, from 1
  bool live = true;          ///< false: freed, or not yet allocated in the order of its stream
  bool was_freed = false;
  int graphs = 0;  ///< number of operations in graphs for which NCCL has registered it
};

/// Returns "byte 12 of allocation 3 (device memory of GPU 0, 64 bytes)", or the distance to its end.
std::string describe(const Block& block, const void* address);

/// All memory that the runtime has given to the program. Device memory is protected: an access by the host ends the
/// process with a message. The emulation itself uses views, which are a second mapping of the same memory. Callers hold
/// the device's lock (cuda/queue.hpp).
class Memory {
 public:
  static Memory& instance();

  /// Allocates memory whose bytes are all 0xff, a NaN in every floating-point type. It is aligned to 4096 bytes. @pre
  /// bytes > 0
  Block& allocate(MemoryType type, int gpu, std::size_t bytes);
  /// Frees an allocation. Its contents are lost, and every later access is a violation.
  void release(Block& block);

  /// Returns the allocation, live or freed, that contains `address`, or that ends before it if no other contains it;
  /// nullptr if it is not in this memory. @cost logarithmic
  Block* find(const void* address);
  /// Returns where the emulation may access [address, address + bytes) for `who`. It is a violation unless all of it is
  /// in one live allocation or outside this memory, in which case the result is the same address, which is the host's.
  std::byte* view(const void* address, std::size_t bytes, const std::string& who);

  /// Lets host code access everything while an object exists: for kernels, which run as host code and check each
  /// access.
  class Open {
   public:
    Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open();
  };

  /// Keeps what an `Open` has opened open, for work that opens it again at once. To change the protection of much
  /// memory takes longer than a small kernel.
  class KeepOpen {
   public:
    KeepOpen() { ++instance().kept_; }
    KeepOpen(const KeepOpen&) = delete;
    KeepOpen& operator=(const KeepOpen&) = delete;
    ~KeepOpen();
  };

  /// Forbids the host access to these bytes of pinned memory until allow() has been called as often. @param why  text
  /// for the message, which says what has not been waited for. @pre in one live pinned allocation
  void forbid(const void* address, std::size_t bytes, const std::string& why);
  void allow(const void* address, std::size_t bytes);

 private:
  struct Arena {
    std::byte* program = nullptr;  // the program's mapping
    std::byte* views = nullptr;    // the emulation's mapping of the same memory
    std::size_t used = 0;
    int file = -1;
    [[nodiscard]] bool holds(const void* address) const;
  };
  Memory();
  static Arena make_arena(int protection);
  Arena& arena_of(MemoryType type) { return type == MemoryType::device ? device_ : host_; }
  void explain_fault(const std::byte* address, bool is_write);
  [[nodiscard]] std::vector<std::span<std::byte>> ranges_of_device_memory() const;

  Arena device_;
  Arena host_;  // pinned and managed memory
  std::map<const std::byte*, Block> blocks_;
  std::map<std::byte*, std::size_t> held_;  // device memory that has not been freed, in pages; unit: bytes
  std::uint64_t allocations_ = 0;
  void close();

  int open_ = 0;
  int kept_ = 0;
  bool is_open_ = false;
  std::vector<std::span<std::byte>> opened_;  // by the last Open
};

}  // namespace emulated_gpu
