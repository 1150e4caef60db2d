// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/mpi/world.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/rank_link.hpp"

namespace lockstep::backends {

/// The ranks of a world as a set that knows nothing of MPI: they find each other by files.
class OnStore {
 public:
  /// @param ranks_per_node  takes the ranks for those of several nodes; 0: the nodes are as they are
  explicit OnStore(const World& world, int ranks_per_node = 0) : world_(world), set_(made()) {
    if (ranks_per_node == 0) return;
    auto members = std::make_shared<RankSet::Members>();
    members->hosts = set_.hosts();
    for (int rank = 0; rank < set_.size(); ++rank) members->shape.node_of_rank.push_back(rank / ranks_per_node);
    set_.link().members = members;
    set_ = set_.dup();
  }
  ~OnStore() {
    barrier(world_.group());
    if (world_.rank() == Rank{0}) std::filesystem::remove_all(folder_);
  }
  OnStore(const OnStore&) = delete;
  OnStore& operator=(const OnStore&) = delete;

  [[nodiscard]] const RankSet& set() const { return set_; }

 private:
  RankSet made() {
    std::string folder = (std::filesystem::temp_directory_path() / "lockstep-store-XXXXXX").string();
    if (world_.rank() == Rank{0}) folder = mkdtemp(folder.data());
    folder_ = broadcast_string(world_.group(), folder, Rank{0});
    return from_store(make_file_store(folder_), {.rank = world_.rank(), .size = world_.size()});
  }

  const World& world_;
  std::string folder_;
  RankSet set_;
};

}  // namespace lockstep::backends
