// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/comm-check/scenario.hpp"
#include "backends/plan/options.hpp"
#include "backends/plan/thread_medium.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"
#include "platform/node_memory/node_memory.hpp"
#include "platform/ranks/thread_ranks.hpp"
#include "schedules/fickle_medium.hpp"

namespace lockstep::schedules {

/// Makes the communicators of a scenario whose ranks are all in one thread, on one node or several. Heaps make some
/// buffers accessible to other ranks, but not all.
class Cluster {
 public:
  /// Settings that are as users have them, or as a test of faults needs them.
  struct Setting {
    std::chrono::duration<double> deadline = std::chrono::seconds(300);
    bool short_tags = true;  ///< tags are as short as MPI allows, so that a mismatch may remain undetected
  };
  Cluster(const comm_check::Scenario& scenario, const Setting& setting);

  /// Makes this rank's communicator of a group; does not wait for the others.
  std::unique_ptr<Communicator> make(std::size_t group, int rank, Progress& progress);
  /// Marks the rank's process as ended.
  void kill(int rank) { is_dead_[static_cast<std::size_t>(rank)] = true; }
  /// Returns by how many operations of a communicator one rank was ahead of another, counting those that send messages.
  [[nodiscard]] std::uint64_t most_ahead() const;
  /// Returns the world rank of rank `member` of a group.
  [[nodiscard]] int world_rank(std::size_t group, int member) const {
    return scenario_.groups[group].members[static_cast<std::size_t>(member)];
  }
  /// Returns the group on whose communicator an error was detected, from its host name; nothing if it is unknown.
  static std::optional<std::size_t> group_of(const Error& error);
  /// Returns whether the world rank has made its communicator of this group.
  [[nodiscard]] bool has_joined(std::size_t group, int rank) const {
    const std::vector<int>& joined = groups_[group].joined;
    return std::find(joined.begin(), joined.end(), rank) != joined.end();
  }

 private:
  /// The data that the ranks of a group share.
  struct Shared {
    ClusterShape shape;
    backends::PlanOptions options;
    std::shared_ptr<backends::Mailboxes> boxes;
    std::shared_ptr<FickleMedium::Traffic> traffic;
    std::vector<std::shared_ptr<NodeMemory>> memories;  ///< by rank of the group; null without shared memory
    std::vector<std::shared_ptr<NodeMemory>> words;     ///< memory of the control channel
    std::shared_ptr<ThreadMailboxes> mailboxes;
    std::vector<int> joined;  ///< world ranks
    std::uint64_t seed = 0;   ///< seed of the behavior of its messages
  };
  static std::string host_name(int node, std::size_t group);
  void share(std::size_t group);
  [[nodiscard]] std::vector<std::shared_ptr<NodeMemory>> memories(std::size_t group, Bytes control, bool has_heaps);

  const comm_check::Scenario& scenario_;
  Setting setting_;
  std::vector<bool> is_dead_;
  std::vector<int> node_of_rank_;
  std::vector<Shared> groups_;
};

}  // namespace lockstep::schedules
