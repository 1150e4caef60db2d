// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/base/types.hpp"

namespace lockstep::peers {

/// Two buffers in one block of memory that both ranks of a job have mapped.
class SharedPair {
 public:
  /// Collective over MPI_COMM_WORLD. @throws std::runtime_error unless there are two ranks, on one machine
  explicit SharedPair(Bytes each);
  SharedPair(const SharedPair&) = delete;
  SharedPair& operator=(const SharedPair&) = delete;
  ~SharedPair();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] void* own() const { return buffer(rank_); }
  [[nodiscard]] void* peer() const { return buffer(1 - rank_); }

 private:
  [[nodiscard]] void* buffer(int rank) const { return static_cast<std::byte*>(memory_) + rank * stride_; }

  int rank_ = 0;
  std::ptrdiff_t stride_ = 0;
  void* memory_ = nullptr;
};

}  // namespace lockstep::peers
