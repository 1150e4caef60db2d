// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "platform/node_memory/node_file.hpp"
#include "platform/node_memory/node_memory_layout.hpp"

namespace lockstep {

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
