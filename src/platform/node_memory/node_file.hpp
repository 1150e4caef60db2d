// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/origin_process.hpp"
#include "lockstep/base/types.hpp"
#include "platform/node_memory/mapping.hpp"
#include "platform/node_memory/node_memory_layout.hpp"

namespace lockstep {

/// Records which parts of a range of bytes are taken. It does not access the bytes.
class Extents {
 public:
  explicit Extents(Bytes whole);

  /// Takes the first free part that is long enough. @param alignment  alignment of the offset
  /// @return its offset; nothing if there is none
  std::optional<std::int64_t> take(Bytes bytes, std::int64_t alignment);
  /// Frees a part. @pre `offset` came from take()
  void give_back(std::int64_t offset) noexcept;

  [[nodiscard]] Bytes taken() const { return taken_; }

 private:
  struct Extent {
    std::int64_t bytes;
    bool taken;
  };
  std::map<std::int64_t, Extent> extents_;  // by offset, without gaps
  Bytes taken_;
};

/// The beginning of messages about this process: "local rank 1 on host h1: ".
std::string local_rank_name(int rank);

/// One process's part in a memory file that processes of a node, its members, share. The file belongs to the processes
/// instead of a group of ranks: any group can use it if all its ranks hold it. Each member has a heap in it, from which
/// it alone allocates buffers of the program and areas of groups.
class NodeFile final : public std::enable_shared_from_this<NodeFile> {
 public:
  NodeFile(SharedFile file, const NodeLayout& layout, int member, std::uint64_t nonce);
  NodeFile(const NodeFile&) = delete;
  NodeFile& operator=(const NodeFile&) = delete;
  ~NodeFile();

  /// Enters this process as a member of the file. @throws Error{unsupported}
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

  /// Allocates memory from this process's heap, as NodeMemory::allocate does. @throws Error{unsupported}
  Allocation allocate(Bytes bytes);
  /// Takes zeroed memory for a group from this process's heap, in whole pages that become present when they are
  /// touched.
  /// @return its offset in the file. @throws Error{unsupported} if the heap or the node has not enough memory left
  std::int64_t take_area(Bytes bytes);
  /// Returns memory to this process's heap. @pre no other process uses it
  void release(std::int64_t offset, Bytes length) noexcept;

  /// The data in the file of a rank that leaves a group.
  struct Parting {
    std::int64_t area = 0;
    Bytes bytes;
    NodeMember* members = nullptr;  ///< the group's members, in the area of its rank 0
    int rank = 0;
    int size = 1;
  };
  /// Takes an area back once no rank of its group can access it any more. This call and later calls of it or of
  /// take_area() check whether that is so.
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
  OriginProcess origin_;
  std::mutex mutex_;  // guards the heap
  Extents heap_;
  std::mutex partings_mutex_;
  std::vector<Parting> partings_;  // partings whose areas are not taken back yet
};

/// The files that a process holds, for the groups that are made from one World or one set of ranks.
class NodeFiles {
 public:
  /// The files in use, and the one that is kept for further use, which is the one with the most members.
  [[nodiscard]] std::vector<std::shared_ptr<NodeFile>> held();
  void add(const std::shared_ptr<NodeFile>& file);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<NodeFile>> files_;
  std::shared_ptr<NodeFile> kept_;
};

/// The places of a group's ranks in a file, by rank.
struct GroupPlan {
  std::vector<int> member_of_rank;
  std::vector<std::int64_t> area_of_rank;  ///< offset of each rank's area: its control area, which in rank 0's follows
                                           ///< the header
  Bytes control;                           ///< size of each rank's control area, in whole pages
  bool membarrier = false;
};

/// A group's part of a file, as seen by one rank.
class ProcessMemory final : public NodeMemory::Store {
 public:
  ProcessMemory(std::shared_ptr<NodeFile> file, GroupPlan plan, int rank);

  /// Size of the area that rank `rank` of a group needs in its heap.
  static Bytes area_bytes(int rank, int ranks, Bytes control);

  [[nodiscard]] NodeMemory::View view() const;
  Allocation allocate(Bytes bytes) override;
  [[nodiscard]] bool has_mortal_ranks() const override { return true; }
  [[nodiscard]] bool has_ended(int peer) const override {
    return file_->has_ended(plan_.member_of_rank[static_cast<std::size_t>(peer)]);
  }
  void left_in_order() override;

 private:
  [[nodiscard]] int size() const { return static_cast<int>(plan_.member_of_rank.size()); }
  [[nodiscard]] std::byte* header(std::int64_t offset) const { return file_->at(plan_.area_of_rank[0] + offset); }

  std::shared_ptr<NodeFile> file_;
  GroupPlan plan_;
  int rank_;
};

}  // namespace lockstep
