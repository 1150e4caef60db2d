// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "platform/node_memory/extents.hpp"
#include "platform/node_memory/node_memory_layout.hpp"
#include "platform/node_memory/shared_file.hpp"

namespace lockstep {

/// "local rank 1 on host h1: ", the beginning of what is said about this process.
std::string local_rank_name(int rank);

/// One process's part in a file in memory that processes of a node share. It belongs to the processes, its members, and
/// not to a group of ranks: any group all of whose ranks hold it can use it. A member has a heap in it, from which it
/// alone allocates, for buffers of the program and for the areas of groups.
class NodeFile final : public std::enable_shared_from_this<NodeFile> {
 public:
  NodeFile(SharedFile file, const NodeLayout& layout, int member, std::uint64_t nonce);
  NodeFile(const NodeFile&) = delete;
  NodeFile& operator=(const NodeFile&) = delete;
  ~NodeFile();

  /// Signs in. @throws Error{unsupported}
  void enter();
  /// Checks that all members have entered the same file. @throws Error{corrupt}
  void meet() const;

  /// This process's number among the members.
  [[nodiscard]] int member() const { return member_; }
  /// The number by which members recognize that they hold the same file.
  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  [[nodiscard]] const NodeLayout& layout() const { return layout_; }
  [[nodiscard]] int descriptor() const { return file_.descriptor(); }
  [[nodiscard]] FileIdentity identity() const { return file_.identity(); }
  [[nodiscard]] std::byte* at(std::int64_t offset) const { return file_.data() + offset; }
  [[nodiscard]] bool has_ended(int member) const { return !file_.marked_by_other(member); }

  /// Memory of the own heap, as NodeMemory::allocate. @throws Error{unsupported}
  Allocation allocate(Bytes bytes);
  /// Zeroed memory of the own heap that gets its pages when they are touched, for a group. In whole pages.
  /// @return its offset in the file. @throws Error{unsupported} if the heap or the node has not so much left
  std::int64_t take_area(Bytes bytes);
  /// Gives memory of the own heap back that no other process knows of.
  void release(std::int64_t offset, Bytes length) noexcept;

  /// What a rank that leaves a group used of the file.
  struct Parting {
    std::int64_t area = 0;
    Bytes bytes;
    NodeMember* members = nullptr;  ///< in the area of the group's rank 0
    int rank = 0;
    int size = 1;
  };
  /// Takes an area back once no rank of its group can reach into it any more: as soon as that is seen at some later
  /// call of this or of take_area().
  void part(const Parting& parting);

 private:
  std::int64_t reserve(Bytes length);
  bool reclaimed(const Parting& parting) noexcept;
  void reclaim() noexcept;
  [[nodiscard]] std::atomic<std::uint64_t>& greeting(int member) const;

  SharedFile file_;
  NodeLayout layout_;
  int member_;
  std::uint64_t nonce_;
  std::mutex mutex_;  // of the heap
  Extents heap_;
  std::mutex partings_mutex_;
  std::vector<Parting> partings_;  // whose areas are not taken back yet
};

/// The files that a process holds, for the groups that are made from one World or one adopted communicator.
class NodeFiles {
 public:
  /// Those in use, and the one that is kept for further use: that with the most members.
  [[nodiscard]] std::vector<std::shared_ptr<NodeFile>> held();
  void add(const std::shared_ptr<NodeFile>& file);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<NodeFile>> files_;
  std::shared_ptr<NodeFile> kept_;
};

}  // namespace lockstep
