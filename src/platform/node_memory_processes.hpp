// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "platform/extents.hpp"
#include "platform/node_memory_layout.hpp"
#include "platform/node_memory_store.hpp"
#include "platform/shared_file.hpp"

namespace lockstep {

/// One process's part in a file that the ranks of a node share.
class ProcessMemory final : public NodeMemory::Store, public std::enable_shared_from_this<ProcessMemory> {
 public:
  ProcessMemory(SharedFile file, const NodeLayout& layout, int rank);

  /// Backs this rank's control area and signs in. @throws Error{unsupported}
  void enter(std::uint64_t nonce);
  /// Checks that all peers have entered the same memory. @throws Error{corrupt}
  void meet(std::uint64_t nonce) const;
  [[nodiscard]] NodeMemory::View view(bool membarrier) const;
  [[nodiscard]] int descriptor() const { return file_.descriptor(); }

  Allocation allocate(Bytes bytes) override;
  [[nodiscard]] bool has_mortal_ranks() const override { return true; }
  [[nodiscard]] bool has_ended(int peer) const override { return !file_.marked_by_other(peer); }

 private:
  std::int64_t reserve(Bytes length);
  void release(std::int64_t offset, Bytes length) noexcept;
  [[nodiscard]] NodeMember& member(int rank) const;

  SharedFile file_;
  NodeLayout layout_;
  int rank_;
  std::mutex mutex_;
  Extents heap_;
};

/// "local rank 1 on host h1: ", the beginning of what is said about this process.
std::string local_rank_name(int rank);

}  // namespace lockstep
