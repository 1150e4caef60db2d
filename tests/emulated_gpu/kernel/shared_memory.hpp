// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulated_gpu {

/// The shared memory of the block that runs: full of NaN, with its variables where they are first met. Blocks run one
/// after the other and use the same one.
class SharedMemory {
 public:
  static constexpr std::size_t most_bytes = std::size_t{48} << 10;  ///< without asking for more
  static constexpr std::size_t addresses = 2 * most_bytes;          ///< with what is nobody's between variables
  static constexpr std::size_t most_alignment = 128;

  SharedMemory();
  /// For another block. @pre dynamic_bytes ≤ most_bytes
  void restart(std::size_t dynamic_bytes);
  /// The one of this declaration. nullptr: there is not so much memory. @pre alignment ≤ most_alignment
  void* variable(const void* declaration, std::size_t bytes, std::size_t alignment);
  [[nodiscard]] void* dynamic() { return memory_; }

  [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  /// Whether these bytes are in one variable. @pre offset < addresses
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
  std::vector<std::uint16_t> owner_;  // of each byte: which variable, from 1
  std::vector<Variable> variables_;
  std::size_t end_ = 0;   // of what has been given out
  std::size_t used_ = 0;  // without what is between
  std::uint16_t owners_ = 0;
};

}  // namespace emulated_gpu
