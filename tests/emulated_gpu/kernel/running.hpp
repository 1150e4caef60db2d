// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace emulated_gpu {

constexpr unsigned lanes_of_warp = 32;

/// The kernel's thread that a host thread runs.
struct Running {
  uint3 thread{};
  uint3 block{};
  dim3 block_extent;
  dim3 grid_extent;
  int gpu = -1;
  unsigned number = 0;  ///< number of the thread in its block
  std::uintptr_t stack = 0;
  std::size_t stack_bytes = 0;

  [[nodiscard]] unsigned lane() const { return number % lanes_of_warp; }
};

/// It is null outside kernels, and while the emulation's own code runs for one, because that accesses memory that a
/// kernel must not.
extern constinit thread_local Running* running;

/// Marks the emulation's own code until the end of the scope.
class InEmulation {
 public:
  InEmulation() : before_(std::exchange(running, nullptr)) {}
  InEmulation(const InEmulation&) = delete;
  InEmulation& operator=(const InEmulation&) = delete;
  ~InEmulation() { running = before_; }

 private:
  Running* before_;
};

}  // namespace emulated_gpu
