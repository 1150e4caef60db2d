// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulated_gpu {

/// The shared memory of the running block. It is filled with NaNs; variables are placed when they are first used.
/// Blocks run one after the other and use the same memory.
class SharedMemory {
 public:
  static constexpr std::size_t most_bytes = std::size_t{48} << 10;  ///< without requesting more
  static constexpr std::size_t addresses = 2 * most_bytes;          ///< includes the gaps between variables
  static constexpr std::size_t most_alignment = 128;

  SharedMemory();
  /// Resets it for another block. @pre dynamic_bytes ≤ most_bytes
  void restart(std::size_t dynamic_bytes);
  /// Returns the variable of this declaration; nullptr if there is not enough memory. @pre alignment ≤ most_alignment
  void* variable(const void* declaration, std::size_t bytes, std::size_t alignment);
  [[nodiscard]] void* dynamic() { return memory_; }

  [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  /// Returns whether these bytes are in one variable. @pre offset < addresses
  [[nodiscard]] bool is_in_a_variable(std::size_t offset, std::size_t bytes) const {
    return owner_[offset] != 0 && offset + bytes <= addresses && owner_[offset] == owner_[offset + bytes - 1];
  }

 private:
  struct Variable {
    const void* declaration;
    std::byte* place;
  };
  std::byte* take(std::size_t bytes, std::size_t alignment);

  std::byte* memory_;
  std::vector<std::uint16_t> owner_;  // for each byte: its variable, counted from 1
  std::vector<Variable> variables_;
  std::size_t end_ = 0;   // end of the allocated part
  std::size_t used_ = 0;  // bytes without the gaps
  std::uint16_t owners_ = 0;
};

}  // namespace emulated_gpu
